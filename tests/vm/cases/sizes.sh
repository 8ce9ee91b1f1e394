# slow: two processors, and memory on both sides of the gap below 4 GiB; --keep is refused.
BIG="ward run --tier vm --template dir:/tpl --memory 3300M --cpus 2"
is "$($BIG -- sh -c 'nproc; free -m | grep Mem | tr -s " " | cut -d" " -f2' > /tmp/seen; echo $?)" 0
is "$(busybox head -1 /tmp/seen)" 2
[ "$(busybox tail -1 /tmp/seen)" -gt 3072 ] || fail "memory: $(busybox cat /tmp/seen)"
$VM --keep -- true 2>/tmp/err; is $? 125
busybox grep -q 'not supported by the vm tier' /tmp/err || fail "$(busybox cat /tmp/err)"
