# Limits inside the machine, and what is said about them.
eat='dd if=/dev/zero of=/dev/null bs=90M count=1000000'
$VM --json /tmp/j -- sh -c "$eat & $eat & $eat; wait"; is $? 137
cause out-of-memory
$VM --pids 20 --json /tmp/j -- sh -c 'for i in $(seq 40); do sleep 1000 & done; sleep 1000'; is $? 2
cause process-limit
# A guest's kernel that crashes under a command: the end says so, with the console's last words.
$VM --json /tmp/j -- sh -c 'echo c > /proc/sysrq-trigger; sleep 1000' 2> /tmp/err; is $? 137
cause machine-ended
busybox grep -q 'Kernel panic - not syncing: sysrq' /tmp/j || fail "no last words: $(busybox cat /tmp/j)"
