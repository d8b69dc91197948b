#include "nvme.h"

/* NVMe command set 1.0, 3.2.4 */
#define NVME_READ 0x02
/* The lab's disk has blocks of 512 bytes. */
#define BLOCK_SHIFT 9

struct nvme_command nvme_read(const struct disk *disk, u64 offset, u8 *data)
{
	u64 first = offset >> BLOCK_SHIFT;

	return (struct nvme_command){
		.opcode = NVME_READ,
		.namespace = 1,
		.data = (u64)data,
		.data_bytes = (u32)disk->io_bytes,
		.cdw10 = (u32)first,
		.cdw11 = (u32)(first >> 32),
		/* less one */
		.cdw12 = (u32)(disk->io_bytes >> BLOCK_SHIFT) - 1,
	};
}
