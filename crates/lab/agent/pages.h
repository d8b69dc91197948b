/* Where pages are in physical memory. */
#ifndef PAGES_H
#define PAGES_H

#include "number.h"

/*
 * Moves pages of touched private memory so that none follows its predecessor in physical memory too, as in memory
 * that was used for long. Otherwise the free list that the guest happens to have decides how many segments an I/O has.
 */
void scatter(u8 *first, u64 bytes);

#endif
