/* Commands of NVMe's that a program hands to the kernel's driver as they are: include/uapi/linux/nvme_ioctl.h. */
#ifndef NVME_H
#define NVME_H

#include "disk.h"
#include "number.h"

/* The numbers are the same on the three architectures. */
#define NVME_IOCTL_IO_CMD 0xc0484e43ul
#define NVME_URING_CMD_IO 0xc0484e80u

/* struct nvme_passthru_cmd, and struct nvme_uring_cmd, where the result is reserved */
struct nvme_command {
	u8 opcode, flags;
	u16 reserved;
	u32 namespace, cdw2, cdw3;
	u64 metadata, data;
	u32 metadata_bytes, data_bytes;
	u32 cdw10, cdw11, cdw12, cdw13, cdw14, cdw15;
	u32 timeout_ms, result;
};

_Static_assert(sizeof(struct nvme_command) == 72, "as in the kernel's header");

/* A read of the lab's disk, which is its controller's first namespace, into memory. */
struct nvme_command nvme_read(const struct disk *disk, u64 offset, u8 *data);

#endif
