/* Rows of a tokenizer for the tests: records of two sizes (the second -1 for one text) and the
 * texts on standard input; a count, ids and segments of each on standard output. With
 * FUZZED a target of libFuzzer: a text and a pair, or changes of the data before them. */
#include <stdio.h>

static unsigned char *read_data(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END)) exit(9);
    *size = (size_t)ftell(file);
    rewind(file);
    unsigned char *data = malloc(*size);
    if (!data || fread(data, 1, *size, file) != *size) exit(9);
    fclose(file);
    return data;
}

#ifdef FUZZED
int LLVMFuzzerTestOneInput(const unsigned char *input, size_t size) {
    static unsigned char *data, *damaged;
    static size_t bytes;
    static int32_t ids[64], segments[64];
    static int whole;
    if (!data) data = read_data(FUZZED, &bytes);
    if (!damaged) damaged = malloc(bytes);
    if (size < 3) return 0;
    size_t changes = input[0] < 64 ? input[0] : 0, first = input[1];
    input += 2, size -= 2;
    if (changes || !whole) memcpy(damaged, data, bytes);
    const int reopened = changes || !whole;
    whole = !changes;
    for (; changes > 0 && size > 5; changes--, input += 5, size -= 5) {
        uint32_t place;
        memcpy(&place, input, 4);
        damaged[place % (place & 1 ? bytes : 512)] = input[4];
    }
    if (reopened && tokenizer_open(damaged, bytes)) return 0;
    if (first > size) first = size;
    const char *text = (const char *)input;
    const long longest = 24 + (long)(first % 41);
    long all, at = 0, windows = 0;
    do all = tokenizer_row(text, first, text + first, size - first, ids, segments, longest,
                           16 + (long)(size % 9), &at);
    while (at && all > 0 && windows++ < 9999);
    if (at || windows > 9999 || all > longest) abort();
    const long half = tokenizer_row(text, size, NULL, 0, ids, segments, 64, 0, NULL);
    for (long i = 0; i < half; i++) {
        const char *token = tokenizer_token(ids[i]);
        if (ids[i] < 0 || ids[i] >= VOCABULARY || (token && strlen(token) > bytes)) abort();
    }
    return half > 64 ? -1 : 0;
}
#else
int main(int count, char **arguments) {
    size_t bytes;
    unsigned char *data = read_data(count > 2 ? arguments[1] : "", &bytes);
    const long longest = atol(arguments[2]);
    int32_t *ids = calloc((size_t)longest + 1, sizeof *ids), sizes[2];
    int32_t *segments = calloc((size_t)longest + 1, sizeof *segments);
    const int failed = tokenizer_open(data, bytes);
    while (fread(sizes, sizeof *sizes, 2, stdin) == 2) {
        const size_t first = (size_t)sizes[0], second = sizes[1] < 0 ? 0 : (size_t)sizes[1];
        char *text = malloc(first + 1), *pair = malloc(second + 1);
        if (fread(text, 1, first, stdin) + fread(pair, 1, second, stdin) != first + second) return 9;
        const int64_t n = failed ? failed
                                 : tokenizer_row(text, first, sizes[1] < 0 ? NULL : pair, second, ids,
                                                 segments, longest, 0, NULL);
        fwrite(&n, sizeof n, 1, stdout);
        fwrite(ids, sizeof *ids, n > 0 ? (size_t)n : 0, stdout);
        fwrite(segments, sizeof *segments, n > 0 ? (size_t)n : 0, stdout);
        free(text);
        free(pair);
    }
    const char *token = tokenizer_token(0);
    const int empty = token && !*token;
    free(ids);
    free(segments);
    free(data);
    return empty;
}
#endif
