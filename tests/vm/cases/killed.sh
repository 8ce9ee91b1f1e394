# ward is killed, at different moments: nothing is left after the next ward.
for s in 1 3 6; do
	$VM -- sleep 1000 & pid=$!
	sleep $s 2>/dev/null || busybox sleep $s
	kill -9 $pid; wait $pid
	ward gc > /dev/null || fail "gc"
	busybox ps | busybox grep -v grep | busybox grep -q 'tier vm' && fail "a process is left after $s s"
done
