/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/bus.c - which device a guest's access is for.
 *
 * Owns:  nothing.
 * Rules: called under the machine's lock. A read that nobody answers is all ones, like an empty
 * bus; nothing stale is ever left in the buffer.
 */
#include <string.h>

#include "tier/vm/machine.h"

static bool is_serial(uint16_t port)
{
	return port >= SERIAL_PORT && port < SERIAL_PORT + SERIAL_PORTS;
}

bool bus_port(struct machine *m, bool out, uint16_t port, uint8_t *data, unsigned size)
{
	bool keyboard = port == I8042_DATA || port == I8042_STATUS;

	if (!out)
		memset(data, 0xff, size);
	if (size != 1)
		return true;
	if (is_serial(port) && out)
		serial_write(&m->serial, port - SERIAL_PORT, *data);
	else if (is_serial(port))
		*data = serial_read(&m->serial, port - SERIAL_PORT);
	else if (keyboard && out)
		return !i8042_write(&m->keyboard, port, *data);
	else if (keyboard)
		*data = i8042_read(&m->keyboard, port);
	return true;
}

void bus_mmio(struct machine *m, bool write, uint64_t at, uint8_t *data, unsigned len)
{
	uint64_t i = (at - BOOT_DEVICES_AT) / VDEV_WINDOW, off = at % VDEV_WINDOW;

	if (!write)
		memset(data, 0xff, len);
	if (at < BOOT_DEVICES_AT || i >= m->device_count || off + len > VDEV_WINDOW)
		return;
	if (write)
		vdev_write(m->devices[i].dev, off, data, len);
	else
		vdev_read(m->devices[i].dev, off, data, len);
}
