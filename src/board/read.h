/* read: reads the board, and decides whether it can be believed. A board is
 * dead if two intervals pass without a picture, as after its end, or if what it
 * says about itself is impossible: no interval, a time in the future, another
 * number of cores than this machine has. The load of a core with an impossible
 * value is unknown. */
#ifndef PERCORE_BOARD_READ_H
#define PERCORE_BOARD_READ_H

#include "board.h"
#include "cycles/machine.h"

struct board_reader;

/* Opens a reader for a machine with this many cores, which must outlive it. A
 * board of a longer interval than interval_max_ns is refused, and so is one of
 * another user than root, the caller's and `uid`. Returns NULL if out of
 * memory; there need not be a board yet. */
struct board_reader *board_reader_open(struct machine *machine, int cores,
                                       uint64_t interval_max_ns, unsigned uid);
void board_reader_close(struct board_reader *reader); /* NULL is ignored */

/* Returns 1 if there is a new picture, 0 if nothing has changed, or -ESTALE if
 * there is no board or it has died. Only reads the clock until the next picture
 * is due. Makes no system call while the board lives; otherwise looks for one
 * at most once a second, and then may block for a second. */
int board_reader_update(struct board_reader *reader);

/* Reads a core of the last picture, or of the next if that is just written.
 * Returns false if the core's load is unknown, as those of all cores are if the
 * board is dead. */
bool board_reader_core(const struct board_reader *reader, int core,
                       struct board_core *row);

#endif
