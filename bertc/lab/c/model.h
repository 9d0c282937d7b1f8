/* A text encoder as a library: open, run, close, and what an error means. */
#ifndef BERTC_MODEL_H
#define BERTC_MODEL_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
typedef struct bertc bertc;

/* A vector of a text, or scores: rows times width numbers, valid until the next call. */
typedef struct {
    const char *name;
    const float *values;
    long rows, width;
    const char *const *labels; /* of the numbers in a row; NULL if they have none */
    int cut;                   /* 1 if the text had more tokens than are read */
} bertc_answer;

/* Map a weights file. 0, or an error. */
int bertc_open(const char *path, bertc **model);
/* Read a text, or with a pair two, in UTF-8; NULL for none. 0, or an error. */
int bertc_run(bertc *model, const char *text, size_t bytes, const char *pair, size_t pair_bytes,
              bertc_answer *answer);
void bertc_close(bertc *model);
const char *bertc_error(int code);
#ifdef __cplusplus
}
#endif
#endif
