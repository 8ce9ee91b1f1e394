/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/bus.c - which device a guest's access is for.
 *
 * Owns:  nothing.
 * Rules: called under the machine's lock, but for bus_quick(). A read that nobody answers is all
 *        ones, like an empty bus; nothing stale is ever left in the buffer.
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

/* The device in whose window all of it lies; NULL: none. */
static struct vdev *device_at(struct machine *m, uint64_t at, unsigned len)
{
	uint64_t i = (at - BOOT_DEVICES_AT) / VDEV_WINDOW;

	if (at < BOOT_DEVICES_AT || i >= m->device_count || at % VDEV_WINDOW + len > VDEV_WINDOW)
		return NULL;
	return m->devices[i].dev;
}

bool bus_quick(struct machine *m, bool write, uint64_t at, uint8_t *data, unsigned len)
{
	struct vdev *dev = device_at(m, at, len);

	return dev && vdev_quick(dev, write, at % VDEV_WINDOW, data, len);
}

void bus_mmio(struct machine *m, bool write, uint64_t at, uint8_t *data, unsigned len)
{
	struct vdev *dev = device_at(m, at, len);

	if (!write)
		memset(data, 0xff, len);
	if (dev && write)
		vdev_write(dev, at % VDEV_WINDOW, data, len);
	else if (dev)
		vdev_read(dev, at % VDEV_WINDOW, data, len);
}
