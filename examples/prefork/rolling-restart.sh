#!/bin/bash
# Replaces the workers of a fleet repeatedly while clients send requests, and
# counts failures. There must be none.
#
#	examples/prefork/rolling-restart.sh [RESTARTS]
set -eu
restarts=${1:-3} # each one ends when its workers have served for SoakTime, 10 s
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
master=
load=
trap '[ -z "$load" ] || kill $load 2>/dev/null || true
      [ -z "$master" ] || kill "$master" 2>/dev/null || true
      wait; rm -rf "$work"' EXIT

(cd "$here" && go build -o "$work/prefork" .)
"$work/prefork" -addr 127.0.0.1:0 -workers 2 2>"$work/log" &
master=$!
until url=$(grep -o 'http://[0-9.:]*' "$work/log"); do
	kill -0 "$master" || { cat "$work/log"; exit 1; }
	sleep 0.1
done

# Each request has a connection of its own.
ask() {
	while [ ! -e "$work/stop" ]; do
		if curl --silent --fail --max-time 5 --output /dev/null "$url"; then echo ok; else echo "failed: $?"; fi
	done >"$work/answers.$1"
}
for client in 1 2 3 4; do
	ask "$client" &
	load="$load $!"
done

for restart in $(seq "$restarts"); do
	kill -HUP "$master"
	until [ "$(grep -c 'rolling restart is done' "$work/log")" = "$restart" ]; do sleep 0.1; done
	echo "restart $restart: $(cat "$work"/answers.* | wc -l) requests, $(cat "$work"/answers.* | grep -c failed || true) failed"
done
touch "$work/stop"
wait $load
load=
! grep -h failed "$work"/answers.*
