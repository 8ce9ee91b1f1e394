# slow: a disk with a rate answers at that rate: never faster, and the guest comes up all the same.
busybox dd if=/dev/urandom of=/tpl/blob bs=1M count=8 2>/dev/null
$VM --io-rate 2M:2000 --json /tmp/j -- sh -c 'a=$(cut -d. -f1 /proc/uptime); wc -c < /blob; b=$(cut -d. -f1 /proc/uptime); [ $((b - a)) -ge 2 ] && echo slow' > /tmp/seen || fail "status $?"
is "$(busybox cat /tmp/seen)" "8388608
slow"
busybox grep -q '"io_bytes_s":2097152' /tmp/j || fail "the limit is not in the report"
busybox rm /tpl/blob
