# Time, disk.
$VM --timeout 12s --json /tmp/j -- sleep 1000; is $? 124
busybox grep -q '"cause":"time-limit"' /tmp/j || fail "cause: $(busybox cat /tmp/j)"
is "$($VM --disk 8M -- sh -c 'dd if=/dev/zero of=/f bs=1M count=20 2>/dev/null; wc -c < /f')" 8388608
