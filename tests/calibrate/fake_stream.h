/* fake_stream.h - a GPU made of host memory, so that the measuring programs run whole where there is none.
 *
 * Work is put into a stream and done when somebody asks for it, in order, so that a program that reads a result without
 * waiting finds it missing, as on a GPU. Piece by piece: `run` returns 0 when it is done, 1 when it has to wait for
 * other ranks. Settings: TPP_FAKE_GPUS (8), TPP_FAKE_WRONG=1 (results are wrong), TPP_FAKE_KILL=RANK:N and
 * TPP_FAKE_STOP=RANK:N (that rank dies, or stands still, at its N-th collective). */
#ifndef TPP_TESTS_CALIBRATE_FAKE_STREAM_H
#define TPP_TESTS_CALIBRATE_FAKE_STREAM_H

#include <stddef.h>

struct CUstream_st;

/* Copies `size` bytes of `context`. */
void fake_stream_push(struct CUstream_st *stream, int (*run)(void *context), const void *context, size_t size);
/* 1 when the setting `name` is 1. */
int fake_setting(const char *name);

#endif
