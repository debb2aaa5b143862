"""Running it for real: configuration, policy, party, coordinator, command line.

The command: `cli` (arguments), `exits` (errors, codes, interrupts), `progress`. A job file:
`config` over `sections`; its `settings`, `schemas` and `sources`. A simulated run: `rows` (dealt
and held back), `comparison` with `scores`, `folder` and `outcome`, put together by `simulation`
and by `demo` over `telco`; `showing` prints it. A saved model: `models`.
"""
