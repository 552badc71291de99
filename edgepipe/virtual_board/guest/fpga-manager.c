// SPDX-License-Identifier: GPL-2.0-only
/*
 * The FPGA's manager as Xilinx's kernels show it: /sys/class/fpga_manager/fpga0 with the files name,
 * state, flags and firmware. Writing the name of a file below /lib/firmware to `firmware` programs
 * it. Here this means: if the file is a bitstream with swapped bytes, the FPGA model is told, through
 * a page that both know (memory_map.py), that it is configured.
 */
#include <linux/device.h>
#include <linux/firmware.h>
#include <linux/io.h>
#include <linux/module.h>

static unsigned long configured_address;
module_param(configured_address, ulong, 0444);
MODULE_PARM_DESC(configured_address, "physical address of the word that the FPGA model reads");

static const u32 configured = 0x56544121;
static const u8 sync_word[] = { 0x66, 0x55, 0x99, 0xaa };

static struct class *managers;
static struct device *manager;
static void __iomem *model;
static const char *state = "unknown";

static bool is_swapped_bitstream(const struct firmware *file)
{
	size_t at;

	for (at = 0; at + sizeof(sync_word) <= file->size && at < 4096; at += sizeof(sync_word))
		if (!memcmp(file->data + at, sync_word, sizeof(sync_word)))
			return true;
	return false;
}

static ssize_t firmware_store(struct device *device, struct device_attribute *attribute,
			      const char *text, size_t count)
{
	const struct firmware *file;
	char name[128];
	int error;

	strscpy(name, text, sizeof(name));
	error = request_firmware(&file, strim(name), device);
	if (error) {
		state = "firmware request error";
		return error;
	}
	if (is_swapped_bitstream(file)) {
		writel(configured, model);
		state = "operating";
	} else {
		state = "write init error";
		error = -EINVAL;
	}
	release_firmware(file);
	return error ? error : count;
}
static DEVICE_ATTR_WO(firmware);

static ssize_t name_show(struct device *device, struct device_attribute *attribute, char *text)
{
	return sysfs_emit(text, "the virtual board's FPGA\n");
}
static DEVICE_ATTR_RO(name);

static ssize_t state_show(struct device *device, struct device_attribute *attribute, char *text)
{
	return sysfs_emit(text, "%s\n", state);
}
static DEVICE_ATTR_RO(state);

static ssize_t flags_show(struct device *device, struct device_attribute *attribute, char *text)
{
	return sysfs_emit(text, "0\n");
}

static ssize_t flags_store(struct device *device, struct device_attribute *attribute,
			   const char *text, size_t count)
{
	return count;
}
static DEVICE_ATTR_RW(flags);

static struct attribute *manager_attrs[] = { &dev_attr_name.attr, &dev_attr_state.attr,
				     &dev_attr_flags.attr, &dev_attr_firmware.attr, NULL };
ATTRIBUTE_GROUPS(manager);

static int __init manager_init(void)
{
	model = ioremap(configured_address, sizeof(configured));
	if (!model)
		return -ENOMEM;
	managers = class_create(THIS_MODULE, "fpga_manager");
	if (IS_ERR(managers)) {
		iounmap(model);
		return PTR_ERR(managers);
	}
	manager = device_create_with_groups(managers, NULL, 0, NULL, manager_groups, "fpga0");
	if (IS_ERR(manager)) {
		class_destroy(managers);
		iounmap(model);
		return PTR_ERR(manager);
	}
	return 0;
}

static void __exit manager_exit(void)
{
	device_unregister(manager);
	class_destroy(managers);
	iounmap(model);
}

module_init(manager_init);
module_exit(manager_exit);
MODULE_DESCRIPTION("The virtual board's FPGA manager");
MODULE_LICENSE("GPL");
