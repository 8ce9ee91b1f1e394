# ward is killed, while the guest boots and while it runs: nothing is left after the next ward.
made() { busybox grep -q . /sys/fs/cgroup/ward/*/cgroup.procs 2>/dev/null; }
none() { ! busybox ps | busybox grep -v grep | busybox grep -q 'tier vm'; }
for until in no_answer answer; do
	: > /tmp/answer
	$VM -- sh -c 'echo up; exec sleep 1000' > /tmp/answer & pid=$!
	if [ $until = answer ]; then
		within 200 busybox grep -q up /tmp/answer || fail "the guest did not come up"
	else
		within 100 made || fail "no machine was made"
	fi
	kill -9 $pid; wait $pid
	ward gc > /dev/null || fail "gc"
	within 30 none || fail "a process is left: $(busybox ps | busybox grep 'tier vm')"
done
