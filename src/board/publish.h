/* publish: writes the loads of this machine's cores to the board. */
#ifndef PERCORE_BOARD_PUBLISH_H
#define PERCORE_BOARD_PUBLISH_H

#include "board.h"

#include "cycles/journal.h"
#include "cycles/topology.h"

enum board_readers {
  BOARD_OFF,
  BOARD_GROUP, /* root and the group of the runtime directory */
  BOARD_ALL
};

struct board;

/* Makes a board that is not published yet. Returns NULL if out of memory. */
struct board *board_open(enum board_readers readers,
                         const struct journal *journal);
/* Ends the board and removes its files. Accepts NULL. */
void board_close(struct board *board);

/* Writes a picture; each row is consistent. Only one thread at a time may call
 * this. The first call starts a thread that publishes the board, and waits up
 * to 0.1 s for it; if the board is not published by then, the picture is left
 * out. If publishing fails, that thread tells the journal, and the library
 * tries again every two seconds. */
void board_publish(struct board *board, const struct snapshot *snapshot,
                   const struct topology *topology);

/* True if readers can find the board. */
bool board_is_published(const struct board *board);

#endif
