"""The five papers' experiments: declared, run, resumed and drawn by one command.

`sN.py` says what is measured (tables, set-ups, repetitions) and measures one cell; `sN_shown.py`
turns stored cells into tables and pictures. Running never draws and drawing never runs.

    cd benchmarks && python -m papers s3 --fast     # run what is missing, then show
    cd benchmarks && python -m papers s3 --show     # show what is stored
    cd benchmarks && python -m papers page          # docs/results.md from docs/results/
"""
