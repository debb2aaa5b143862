#!/bin/sh
# Plays four organisations on one machine, once: each makes its own key and request in its own volume, the coordinator signs,
# everybody joins. Between real organisations every step is a person's: see the guide "Between organisations".
set -eu
test ! -e /volumes/lead/ready || exit 0
set -- ${METRICS_PORTS:-9464 9464 9464 9464}   # one each: containers that share a network need different ones
cd /volumes/coordinator
cat > coordinator.toml <<END
[coordinator]
name = "clinics"
host = "coordinator"
port = 8002

[metrics]
port = $1
END
spinney coordinator init coordinator.toml > init.txt
fingerprint=$(grep -o 'SHA256:[0-9A-F:]*' init.txt | head -1)
for party in north lakeside st-mary; do
  shift
  cd "/volumes/$party"
  cp "/examples/$party.csv" table.csv
  cat > party.toml <<END
[party]
name = "$party"

[table]
source = "csv"
path = "table.csv"
row_id = "visit"

[policy]
min_parties = 3
secure_sum = true

[metrics]
port = $1
END
  spinney party request "$party" clinics
  cp "request/$party.request.zip" /volumes/coordinator/
done
cd /volumes/lead
sed 's/^parties = .*/parties = ["north", "lakeside", "st-mary"]/' /examples/deployed/readmission.toml > job.toml
spinney party request lead@clinics.example.org clinics --role lead
cp request/lead@clinics.example.org.request.zip /volumes/coordinator/
cd /volumes/coordinator
for request in *.request.zip; do spinney coordinator approve coordinator.toml "$request"; done
for name in north lakeside st-mary lead@clinics.example.org; do
  cd "/volumes/${name%@*}"
  cp "/volumes/coordinator/$name.signed.zip" .
  spinney party join "$name.signed.zip" --fingerprint "$fingerprint"
done
touch /volumes/lead/ready
