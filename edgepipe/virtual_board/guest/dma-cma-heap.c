// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kernel's own dma-heaps and its CMA heap, /dev/dma_heap/linux,cma, as one module: Debian's
 * kernel has them disabled. dma-heap.c and cma_heap.c are unchanged kernel source files
 * (kernel_modules.py takes them from Debian's linux-source).
 *
 * Modules cannot call cma_alloc, so this uses dma_alloc_pages, which allocates from the same default
 * area and is exported.
 */
#include <linux/cma.h>
#include <linux/dma-map-ops.h>
#include <linux/module.h>
#include <linux/platform_device.h>

static struct platform_device *heap_owner;

struct page *cma_alloc(struct cma *area, unsigned long count, unsigned int align, bool no_warn)
{
	dma_addr_t address;

	return dma_alloc_pages(&heap_owner->dev, count << PAGE_SHIFT, &address, DMA_BIDIRECTIONAL,
			       GFP_KERNEL | __GFP_NOWARN);
}

bool cma_release(struct cma *area, const struct page *pages, unsigned long count)
{
	dma_free_pages(&heap_owner->dev, count << PAGE_SHIFT, (struct page *)pages,
		       page_to_phys((struct page *)pages), DMA_BIDIRECTIONAL);
	return true;
}

const char *cma_get_name(const struct cma *area)
{
	return "linux,cma";
}

/* The init functions of the two files are called from one place below instead. */
#pragma push_macro("module_init")
#undef module_init
#undef subsys_initcall
#define module_init(function)
#define subsys_initcall(function)
#define dev_get_cma_area(device) ((struct cma *)heap_owner)
#include "dma-heap.c"
#include "cma_heap.c"
#pragma pop_macro("module_init")

static int __init heap_init(void)
{
	int error;

	heap_owner = platform_device_register_simple("dma-cma-heap", -1, NULL, 0);
	if (IS_ERR(heap_owner))
		return PTR_ERR(heap_owner);
	error = dma_set_mask_and_coherent(&heap_owner->dev, DMA_BIT_MASK(32)) ?: dma_heap_init();
	if (!error)
		error = add_default_cma_heap();
	if (error)
		platform_device_unregister(heap_owner);
	return error;
}
module_init(heap_init);
MODULE_IMPORT_NS(DMA_BUF);
