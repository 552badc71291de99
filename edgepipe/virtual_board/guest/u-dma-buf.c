// SPDX-License-Identifier: GPL-2.0-only
/*
 * A DMA buffer with a known physical address for user space, with the user interface of ikwzm's
 * u-dma-buf (the driver that real boards install), for the virtual board's stock kernel.
 *
 * Device tree:   udmabuf0 { compatible = "ikwzm,u-dma-buf"; device-name = "udmabuf0";
 *                           size = <bytes>; memory-region = <&pool>; };
 * Device file:   /dev/udmabuf0; mmap is cached, with O_SYNC it is not.
 * Attributes:    /sys/class/u-dma-buf/udmabuf0/{phys_addr,size,dma_coherent,sync_offset,sync_size,
 *                sync_direction,sync_for_cpu,sync_for_device}
 *
 * Writing 1 to sync_for_cpu or sync_for_device maintains the caches of the window that the other
 * sync_* attributes describe. A larger value carries the window itself: bits 63:32 the offset,
 * 31:4 the size in bytes with its low 4 bits as 0, 3:2 the direction (0 both, 1 to, 2 from device).
 *
 * Not supported: sync_mode, quirks, several buffers of one node, and 32-bit kernels.
 */
#include <linux/cdev.h>
#include <linux/dma-mapping.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/of.h>
#include <linux/of_reserved_mem.h>
#include <linux/platform_device.h>

struct udmabuf {
	struct device *parent; /* the platform device: owns the memory */
	struct device *device; /* the class device: carries the attributes */
	struct cdev cdev;
	dev_t number;
	void *kernel_address;
	dma_addr_t address;
	u64 bytes;
	bool coherent;
	u64 sync_offset, sync_size, sync_direction;
};

static struct class *udmabuf_class;

static int udmabuf_open(struct inode *inode, struct file *file)
{
	file->private_data = container_of(inode->i_cdev, struct udmabuf, cdev);
	return 0;
}

static int udmabuf_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct udmabuf *buffer = file->private_data;
	unsigned long bytes = vma->vm_end - vma->vm_start;
	u64 offset = (u64)vma->vm_pgoff << PAGE_SHIFT;

	if (offset > buffer->bytes || bytes > buffer->bytes - offset)
		return -EINVAL;
	if ((file->f_flags & O_SYNC) && !buffer->coherent)
		vma->vm_page_prot = pgprot_writecombine(vma->vm_page_prot);
	return remap_pfn_range(vma, vma->vm_start, PHYS_PFN(buffer->address + offset), bytes,
			       vma->vm_page_prot);
}

static const struct file_operations udmabuf_operations = {
	.owner = THIS_MODULE,
	.open = udmabuf_open,
	.mmap = udmabuf_mmap,
};

static int udmabuf_sync(struct udmabuf *buffer, const char *text, bool for_device)
{
	u64 value, offset = buffer->sync_offset, bytes = buffer->sync_size;
	enum dma_data_direction direction = buffer->sync_direction;

	if (kstrtou64(text, 0, &value))
		return -EINVAL;
	if (!(value & 1))
		return 0;
	if (value > 1) {
		offset = value >> 32;
		bytes = value & 0xfffffff0;
		direction = (value >> 2) & 3;
	}
	if (direction > DMA_FROM_DEVICE || offset > buffer->bytes || bytes > buffer->bytes - offset)
		return -EINVAL;
	if (for_device)
		dma_sync_single_for_device(buffer->parent, buffer->address + offset, bytes, direction);
	else
		dma_sync_single_for_cpu(buffer->parent, buffer->address + offset, bytes, direction);
	return 0;
}

static ssize_t sync_for_cpu_store(struct device *device, struct device_attribute *attribute,
				  const char *text, size_t length)
{
	return udmabuf_sync(dev_get_drvdata(device), text, false) ?: length;
}
static DEVICE_ATTR_WO(sync_for_cpu);

static ssize_t sync_for_device_store(struct device *device, struct device_attribute *attribute,
				     const char *text, size_t length)
{
	return udmabuf_sync(dev_get_drvdata(device), text, true) ?: length;
}
static DEVICE_ATTR_WO(sync_for_device);

#define UDMABUF_SHOW(name, format, value)                                                          \
	static ssize_t name##_show(struct device *device, struct device_attribute *attribute,     \
				   char *text)                                                      \
	{                                                                                          \
		struct udmabuf *buffer = dev_get_drvdata(device);                                  \
		return sysfs_emit(text, format "\n", value);                                       \
	}

#define UDMABUF_STORE(name, limit)                                                                 \
	static ssize_t name##_store(struct device *device, struct device_attribute *attribute,    \
				    const char *text, size_t length)                               \
	{                                                                                          \
		struct udmabuf *buffer = dev_get_drvdata(device);                                  \
		u64 value;                                                                         \
		if (kstrtou64(text, 0, &value) || value > (limit))                                 \
			return -EINVAL;                                                            \
		buffer->name = value;                                                              \
		return length;                                                                     \
	}

UDMABUF_SHOW(phys_addr, "0x%llx", (u64)buffer->address)
static DEVICE_ATTR_RO(phys_addr);
UDMABUF_SHOW(size, "%llu", buffer->bytes)
static DEVICE_ATTR_RO(size);
UDMABUF_SHOW(dma_coherent, "%d", buffer->coherent)
static DEVICE_ATTR_RO(dma_coherent);
UDMABUF_SHOW(sync_offset, "0x%llx", buffer->sync_offset)
UDMABUF_STORE(sync_offset, buffer->bytes)
static DEVICE_ATTR_RW(sync_offset);
UDMABUF_SHOW(sync_size, "%llu", buffer->sync_size)
UDMABUF_STORE(sync_size, buffer->bytes)
static DEVICE_ATTR_RW(sync_size);
UDMABUF_SHOW(sync_direction, "%llu", buffer->sync_direction)
UDMABUF_STORE(sync_direction, 2)
static DEVICE_ATTR_RW(sync_direction);

static struct attribute *udmabuf_attrs[] = {
	&dev_attr_phys_addr.attr,      &dev_attr_size.attr,           &dev_attr_dma_coherent.attr,
	&dev_attr_sync_offset.attr,    &dev_attr_sync_size.attr,      &dev_attr_sync_direction.attr,
	&dev_attr_sync_for_cpu.attr,   &dev_attr_sync_for_device.attr, NULL,
};
ATTRIBUTE_GROUPS(udmabuf);

static int udmabuf_probe(struct platform_device *platform)
{
	struct device *parent = &platform->dev;
	const char *name = "udmabuf0";
	struct udmabuf *buffer;
	u32 bytes;
	int error;

	if (of_property_read_u32(parent->of_node, "size", &bytes) || !bytes)
		return dev_err_probe(parent, -EINVAL, "no size\n");
	of_property_read_string(parent->of_node, "device-name", &name);
	buffer = devm_kzalloc(parent, sizeof(*buffer), GFP_KERNEL);
	if (!buffer)
		return -ENOMEM;
	buffer->parent = parent;
	buffer->bytes = PAGE_ALIGN(bytes);
	buffer->sync_size = buffer->bytes;
	buffer->coherent = of_property_read_bool(parent->of_node, "dma-coherent");
	platform_set_drvdata(platform, buffer);

	error = of_reserved_mem_device_init(parent);
	if (error)
		return dev_err_probe(parent, error, "no memory-region\n");
	dma_set_mask_and_coherent(parent, DMA_BIT_MASK(32));
	buffer->kernel_address =
		dma_alloc_coherent(parent, buffer->bytes, &buffer->address, GFP_KERNEL);
	if (!buffer->kernel_address) {
		error = -ENOMEM;
		goto release_region;
	}
	error = alloc_chrdev_region(&buffer->number, 0, 1, name);
	if (error)
		goto free_memory;
	cdev_init(&buffer->cdev, &udmabuf_operations);
	buffer->cdev.owner = THIS_MODULE;
	error = cdev_add(&buffer->cdev, buffer->number, 1);
	if (error)
		goto free_number;
	buffer->device = device_create_with_groups(udmabuf_class, parent, buffer->number, buffer,
						   udmabuf_groups, "%s", name);
	if (IS_ERR(buffer->device)) {
		error = PTR_ERR(buffer->device);
		goto delete_cdev;
	}
	dev_info(parent, "%s: %llu bytes at %pad\n", name, buffer->bytes, &buffer->address);
	return 0;

delete_cdev:
	cdev_del(&buffer->cdev);
free_number:
	unregister_chrdev_region(buffer->number, 1);
free_memory:
	dma_free_coherent(parent, buffer->bytes, buffer->kernel_address, buffer->address);
release_region:
	of_reserved_mem_device_release(parent);
	return error;
}

static int udmabuf_remove(struct platform_device *platform)
{
	struct udmabuf *buffer = platform_get_drvdata(platform);

	device_destroy(udmabuf_class, buffer->number);
	cdev_del(&buffer->cdev);
	unregister_chrdev_region(buffer->number, 1);
	dma_free_coherent(buffer->parent, buffer->bytes, buffer->kernel_address, buffer->address);
	of_reserved_mem_device_release(buffer->parent);
	return 0;
}

static const struct of_device_id udmabuf_match[] = {
	{ .compatible = "ikwzm,u-dma-buf" },
	{},
};
MODULE_DEVICE_TABLE(of, udmabuf_match);

static struct platform_driver udmabuf_driver = {
	.probe = udmabuf_probe,
	.remove = udmabuf_remove,
	.driver = { .name = "u-dma-buf", .of_match_table = udmabuf_match },
};

static int __init udmabuf_init(void)
{
	int error;

	udmabuf_class = class_create(THIS_MODULE, "u-dma-buf");
	if (IS_ERR(udmabuf_class))
		return PTR_ERR(udmabuf_class);
	error = platform_driver_register(&udmabuf_driver);
	if (error)
		class_destroy(udmabuf_class);
	return error;
}
module_init(udmabuf_init);

static void __exit udmabuf_exit(void)
{
	platform_driver_unregister(&udmabuf_driver);
	class_destroy(udmabuf_class);
}
module_exit(udmabuf_exit);

MODULE_DESCRIPTION("DMA buffers for user space, by the interface of u-dma-buf");
MODULE_LICENSE("GPL");
