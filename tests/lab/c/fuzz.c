/* A target of libFuzzer next to model.c: a line for the program, read in a mode that the first
 * byte chooses, after changes of the file of the weights, as many as the second says. */
#define main program_main
#include "model.c"
#undef main

static unsigned char *copied(void) {
    const unsigned char *file;
    size_t bytes;
    unsigned char *copy = malloc(FILE_BYTES);
    if (!copy || read_file(WEIGHTS, &file, &bytes)) abort();
    memcpy(copy, file, FILE_BYTES);
    return copy;
}

int LLVMFuzzerTestOneInput(const unsigned char *input, size_t size) {
    static unsigned char *whole, *damaged;
    int (*const modes[])(bertc *, line *) = {
        KIND == 't' ? answer_tags : KIND == 'c' || KIND == 'f' ? answer_fill : answer_text,
        answer_ids, answer_proof};
    if (!whole && !freopen("/dev/null", "w", stdout)) abort();
    if (!whole) whole = copied(), damaged = copied();
    if (size < 2) return 0;
    const int mode = input[0] % 3, changes = input[1] < 32 ? input[1] : 0;
    uint32_t places[32] = {0};
    input += 2, size -= 2;
    int count = 0, differs = 0;
    for (; count < changes && size > 5; count++, input += 5, size -= 5) {
        memcpy(&places[count], input, 4);
        /* Of the header, of the tokenizer, or of all. */
        const uint32_t of[] = {HEADER, FILE_BYTES - TENSORS_END, FILE_BYTES, FILE_BYTES};
        const uint32_t kind = places[count] & 3;
        places[count] = places[count] / 4 % of[kind] + (kind == 1 ? TENSORS_END : 0);
        damaged[places[count]] = input[4];
    }
    for (int i = 0; i < count; i++) differs |= damaged[places[i]] != whole[places[i]];
    if (!check_file(damaged, FILE_BYTES) != !differs) abort();
    if (!check_file(damaged, FILE_BYTES - 1)) abort();
    /* Past the digest. */
    bertc model = {.file = damaged, .bytes = FILE_BYTES};
    line read = {malloc(size + 1), size, size + 1};
    if (!read.text) abort();
    memcpy(read.text, input, size);
    read.text[size] = 0;
    if (!tokenizer_open(damaged + TENSORS_END, FILE_BYTES - TENSORS_END)) modes[mode](&model, &read);
    for (int i = 0; i < count; i++) damaged[places[i]] = whole[places[i]];
    free(read.text);
    free(model.memory);
    free(model.ids);
    free_results(&model.results);
    return 0;
}
