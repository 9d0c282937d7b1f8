/* The file of the weights, memory, and runs. */
/* What a run of the network hands out, copied as it comes. */
typedef struct {
    float *values[RESULTS];
    long rows[RESULTS], width[RESULTS];
    int error;
} results;

struct bertc {
    const unsigned char *file;
    size_t bytes;
    float *memory;
    int32_t *ids, *segments;
    long room, longest;
    int cut; /* the text that was read last had more tokens than a row */
    results results;
};


const char *bertc_error(int code) {
    static const char *const MEANINGS[] = {
        "no error", "the weights file cannot be read", "the weights file is of another model",
        "the weights file is damaged or cut short", "there is not enough memory",
        "the row has more tokens than the model has positions", "the row has no tokens",
        "a token or segment is none of the model's", "the text is not UTF-8",
        "the line is no request",
    };
    return code >= 0 && code < (int)(sizeof MEANINGS / sizeof *MEANINGS) ? MEANINGS[code] : "?";
}


/* A sum of words, each mixed with its place by splitmix64's last steps. */
static uint64_t digest_of(const unsigned char *content, size_t bytes) {
    uint64_t sum = 0;
    for (size_t i = 0; i < bytes / 8; i++) {
        uint64_t word;
        memcpy(&word, content + 8 * i, sizeof word);
        word ^= (i + 1) * UINT64_C(0x9E3779B97F4A7C15);
        word = (word ^ (word >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
        word = (word ^ (word >> 27)) * UINT64_C(0x94D049BB133111EB);
        sum += word ^ (word >> 31);
    }
    return sum;
}


/* All of a file: that in the program, or mapped where that can be, else read. */
static int read_file(const char *path, const unsigned char **content, size_t *bytes) {
#if INSIDE
    (void)path;
    *content = (const unsigned char *)CONTENT;
    *bytes = sizeof CONTENT;
#elif BERTC_MAPS
    const int file = open(path, O_RDONLY);
    struct stat about;
    if (file < 0) return NO_FILE;
    if (fstat(file, &about) || !S_ISREG(about.st_mode) || about.st_size < HEADER) {
        close(file);
        return DAMAGED;
    }
    *bytes = (size_t)about.st_size;
    void *map = mmap(NULL, *bytes, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    if (map == MAP_FAILED) return NO_MEMORY;
    *content = map;
#else
    FILE *file = fopen(path, "rb");
    if (!file) return NO_FILE;
    unsigned char *all = malloc(FILE_BYTES + 1);
    *bytes = all ? fread(all, 1, FILE_BYTES + 1, file) : 0;
    fclose(file);
    if (!all) return NO_MEMORY;
    *content = all;
#endif
    return 0;
}


/* The file has a header (magic, digest, bytes, zeros), tensors, and the tokenizer. */
static int check_file(const unsigned char *file, size_t bytes) {
    uint64_t header[HEADER / 8];
    if (bytes < HEADER) return DAMAGED;
    memcpy(header, file, sizeof header);
    if (memcmp(file, "bertc C\n", 8)) return ANOTHER_MODEL;
    if (header[1] != DIGEST || header[2] != FILE_BYTES) return ANOTHER_MODEL;
    for (int i = 3; i < HEADER / 8; i++)
        if (header[i]) return DAMAGED;
    if (bytes != FILE_BYTES || digest_of(file + HEADER, bytes - HEADER) != DIGEST) return DAMAGED;
    return 0;
}


static void free_results(results *all) {
    for (int number = 0; number < RESULTS; number++) free(all->values[number]);
    memset(all, 0, sizeof *all);
}


void bertc_close(bertc *model) {
    if (!model) return;
#if !INSIDE && BERTC_MAPS
    if (model->file) munmap((void *)(uintptr_t)model->file, model->bytes);
#elif !INSIDE
    free((void *)(uintptr_t)model->file);
#endif
    free(model->memory);
    free(model->ids);
    free_results(&model->results);
    free(model);
}


int bertc_open(const char *path, bertc **opened) {
    bertc *model = calloc(1, sizeof *model);
    *opened = NULL;
    if (!model) return NO_MEMORY;
    int error = read_file(path, &model->file, &model->bytes);
    if (!error) error = check_file(model->file, model->bytes);
    if (!error) error = -tokenizer_open(model->file + TENSORS_END, FILE_BYTES - TENSORS_END);
    if (error) {
        bertc_close(model);
        return error;
    }
    *opened = model;
    return 0;
}


static void copy_result(void *context, int number, const float *values, long rows, long width) {
    results *all = context;
    const size_t bytes = (size_t)(rows * width) * sizeof(float);
    float *copy = realloc(all->values[number], bytes ? bytes : 1);
    if (!copy) {
        all->error = NO_MEMORY;
        return;
    }
    memcpy(copy, values, bytes);
    all->values[number] = copy;
    all->rows[number] = rows;
    all->width[number] = width;
}


/* Run the row of n tokens that is in ids and segments. */
static int run_row(bertc *model, long n, unsigned wanted, results *all) {
    if (n < 1) return NO_TOKENS;
    if (n > LONGEST) return TOO_LONG;
    for (long i = 0; i < n; i++)
        if (model->ids[i] < 0 || model->ids[i] >= TOKENS || model->segments[i] < 0 ||
            model->segments[i] >= SEGMENTS) return NO_SUCH_TOKEN;
    if (n > model->room) {
        free(model->memory);
        model->room = 0;
        model->memory = malloc((size_t)memory_of(n) * sizeof(float));
        if (!model->memory) return NO_MEMORY;
        model->room = n;
    }
    network((const float *)(const void *)(model->file + HEADER), n, INPUTS(model), model->memory,
            wanted, copy_result, all);
    return all->error;
}


/* Room for rows of n tokens and their segments. */
static int make_row(bertc *model, long n) {
    if (n <= model->longest) return 0;
    free(model->ids);
    model->ids = malloc((size_t)n * 2 * sizeof(int32_t));
    model->longest = model->ids ? n : 0;
    model->segments = model->ids ? model->ids + n : NULL;
    return model->ids ? 0 : NO_MEMORY;
}


/* Tokens of a text, so many at most, in ids and segments; below 0: an error. With `skipped` a window
 * that begins after so many, and there where the next begins, or 0. */
static long read_text(bertc *model, const char *text, size_t bytes, const char *pair,
                      size_t pair_bytes, long longest, long *skipped) {
    /* A letter may become eighteen, as one of Arabic does. */
    const size_t most = 18 * (bytes + pair_bytes) + 16;
    if (most < (size_t)longest) longest = (long)most;
    if (make_row(model, longest + 1)) return -NO_MEMORY;
    long n = longest + 1; /* one more says that there are more */
    for (int more = !skipped; more >= 0 && n > longest; more--) {
        model->cut |= !skipped && !more;
        n = tokenizer_row(text, bytes, pair, pair_bytes, model->ids, model->segments, longest + more,
                          STRIDE, skipped);
    }
    for (long i = 0; i < n; i++)
        if (model->segments[i] >= SEGMENTS) model->segments[i] = SEGMENTS - 1;
    return n;
}


/* Vectors of length 1 if they are so, probabilities of labels; the mean of a text's states. */
static void finish_answer(results *all) {
    float *values = all->values[ANSWER];
    const long rows = all->rows[ANSWER], width = all->width[ANSWER];
    for (long row = 1; row < rows && KIND == 'v'; row++)
        for (long i = 0; i < width; i++) values[i] += values[row * width + i];
    for (long i = 0; i < width && KIND == 'v'; i++) values[i] /= (float)rows;
    if (KIND == 'v') all->rows[ANSWER] = 1;
    if (KIND == 'v' && UNIT) {
        SUM(squares, width, square(values[i]));
        const float length = larger(sqrtf(squares), 1e-12f);
        for (long i = 0; i < width; i++) values[i] /= length;
    }
    if (KIND == 'l') softmax(values, width, 1, width, values);
    for (long i = 0; i < width && KIND == 'm'; i++) values[i] = sigmoid(values[i]);
}


/* Scores of a text: of one in windows the mean over them. */
static int score_text(bertc *model, const char *text, size_t bytes, const char *pair,
                      size_t pair_bytes) {
    float *sums = NULL;
    long skipped = 0, windows = 0, width = 0;
    int error = 0;
    do {
        const long n = read_text(model, text, bytes, pair, pair_bytes, READS,
                                 STRIDE && KIND != 't' ? &skipped : NULL);
        error = n < 0 ? (int)-n : run_row(model, n, 1u << GROUPS[ANSWER], &model->results);
        if (error || (!windows && !skipped)) break;
        width = model->results.width[ANSWER];
        if (!sums) sums = calloc((size_t)width, sizeof *sums);
        if (!sums) error = NO_MEMORY;
        for (long i = 0; i < width && !error; i++) sums[i] += model->results.values[ANSWER][i];
        windows++;
    } while (skipped && !error);
    for (long i = 0; i < width && !error; i++)
        model->results.values[ANSWER][i] = sums[i] / (float)windows;
    free(sums);
    return error;
}


int bertc_run(bertc *model, const char *text, size_t bytes, const char *pair, size_t pair_bytes,
              bertc_answer *answer) {
    const size_t before = sizeof PROMPT - 1;
    char *prompted = before ? malloc(before + bytes + 1) : NULL;
    if (before && !prompted) return NO_MEMORY;
    model->cut = 0;
    if (before) memcpy(prompted, PROMPT, before);
    if (before && bytes) memcpy(prompted + before, text, bytes);
    const int error = score_text(model, before ? prompted : text, before + bytes, pair, pair_bytes);
    free(prompted);
    if (error) return error;
    finish_answer(&model->results);
    (void)AXES, (void)tokenizer_token; /* which the program needs alone */
    answer->name = NAMES[ANSWER];
    answer->values = model->results.values[ANSWER];
    answer->rows = model->results.rows[ANSWER];
    answer->width = model->results.width[ANSWER];
    answer->labels = LABELS[0] ? LABELS : NULL;
    answer->cut = model->cut;
    return 0;
}
