# slow: a network card on a tap: both ways, small and large, and none of it without --tap.
busybox tunctl -t wtap > /dev/null && busybox ifconfig wtap 10.77.0.1 netmask 255.255.255.0 up || fail "making a tap"
busybox mkdir -p /tmp/www; busybox dd if=/dev/urandom of=/tmp/www/big bs=64k count=16 2>/dev/null
busybox httpd -p 10.77.0.1:8000 -h /tmp/www
sum=$(busybox sha256sum < /tmp/www/big)
TAP="$VM --tap wtap --tap-addr 10.77.0.2/24,10.77.0.1"
$TAP --json /tmp/j -- sh -c 'ping -c 2 -W 20 10.77.0.1 > /dev/null && echo pinged; wget -q -O - http://10.77.0.1:8000/big | sha256sum; route -n | grep -c "^0.0.0.0"; cat /sys/class/net/eth0/address' > /tmp/seen || fail "status $?"
is "$(busybox head -3 /tmp/seen)" "pinged
$sum
1"
busybox grep -q '"tap":"wtap"' /tmp/j || fail "the grant is not in the report"
# From outside: what the guest serves, while the tap is its alone.
busybox mkfifo /tmp/hold
$TAP -- sh -c 'mkdir /w; dd if=/dev/urandom of=/w/f bs=64k count=16 2>/dev/null; httpd -p 80 -h /w; sha256sum < /w/f; read line' < /tmp/hold > /tmp/seen & pid=$!
exec 9> /tmp/hold
get() { printf 'GET /f HTTP/1.0\r\n\r\n' | busybox nc -w 60 10.77.0.2 80 2>/dev/null | busybox tail -c 1048576 | busybox sha256sum; }
none=$(: | busybox sha256sum); n=0
until got=$(get); [ "$got" != "$none" ] || [ $n -gt 120 ]; do n=$((n + 1)); busybox sleep 1; done
$TAP -- true 2> /tmp/err; is $? 125
busybox grep -q 'another may have it' /tmp/err || fail "a tap in use: $(busybox cat /tmp/err)"
echo >&9; exec 9>&-; wait $pid || fail "status $?"
is "$got" "$(busybox cat /tmp/seen)"
$VM --tap nosuch -- true 2> /tmp/err; is $? 125
busybox grep -q 'there is no such tap' /tmp/err || fail "no tap: $(busybox cat /tmp/err)"
busybox ifconfig nosuch > /dev/null 2>&1 && fail "made an interface"
is "$($VM -- sh -c 'ls /sys/class/net')" lo
busybox tunctl -d wtap > /dev/null
