/* Integers by width: there is no C library here to name them. */
#ifndef NUMBER_H
#define NUMBER_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int i32;
typedef unsigned long u64;
typedef long i64;

_Static_assert(sizeof(u64) == 8 && sizeof(u32) == 4 && sizeof(u16) == 2, "LP64 with the usual widths");

#endif
