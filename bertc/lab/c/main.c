#ifndef BERTC_LIBRARY
/* The program: a line of text, or two with a tab between, to a line of JSON. */
typedef struct {
    char *text;
    size_t length, room;
} line;


/* The next line of a file without its end, whatever its length; 0 at the end of the file. */
static int next_line(FILE *file, line *read) {
    int letter;
    read->length = 0;
    while ((letter = getc(file)) != EOF) {
        if (read->length + 2 > read->room) {
            char *longer = realloc(read->text, read->room = 2 * read->room + 256);
            if (!longer) return 0;
            read->text = longer;
        }
        if (letter == '\n') break;
        read->text[read->length++] = (char)letter;
    }
    if (letter == EOF && !read->length) return 0;
    if (read->length && read->text[read->length - 1] == '\r') read->length--;
    read->text[read->length] = 0;
    return 1;
}


static void print_string(const char *text, size_t bytes) {
    putchar('"');
    for (size_t i = 0; i < bytes; i++) {
        const unsigned char letter = (unsigned char)text[i];
        if (letter == '"' || letter == '\\') printf("\\%c", letter);
        else if (letter < 32) printf("\\u%04x", letter);
        else putchar(letter);
    }
    putchar('"');
}


static void print_number(float value) {
    if (isfinite(value)) printf("%.9g", (double)value);
    else printf("null");
}


/* Some columns of a row; all of them if there are none. */
static void print_row(const float *values, long width, const long *columns, long count) {
    putchar('[');
    for (long i = 0; i < (count ? count : width); i++) {
        if (i) printf(", ");
        print_number(values[count ? columns[i] : i]);
    }
    putchar(']');
}


/* A result: a number, a row or several, at some places or all. */
static void print_result(const results *all, int number, const long *places, long count,
                         const long *columns, long some) {
    const float *values = all->values[number];
    const long width = all->width[number], rows = AXES[number] > 2 ? all->rows[number] : 1;
    if (AXES[number] == 1) {
        print_number(*values);
        return;
    }
    if (AXES[number] == 2) {
        print_row(values, width, columns, some);
        return;
    }
    putchar('[');
    for (long i = 0; i < (count ? count : rows); i++) {
        if (i) printf(", ");
        print_row(values + (count ? places[i] : i) * width, width, columns, some);
    }
    putchar(']');
}


/* Whole numbers from text[at] on, as far as they go, at most so many; where they end in at. */
static long numbers(const char *text, size_t *at, long *values, long most) {
    long count = 0;
    for (; count < most; count++) {
        while (text[*at] == ' ' || text[*at] == ',' || text[*at] == '[') ++*at;
        if (text[*at] < '0' || text[*at] > '9') break;
        char *end;
        const long value = strtol(text + *at, &end, 10);
        values[count] = value;
        *at = (size_t)(end - text);
    }
    return count;
}


/* --ids: token ids, and after a tab segments, to all results by their names. */
static int answer_ids(bertc *model, const line *read, results *all) {
    const long most = (long)read->length / 2 + 2;
    long *values = malloc((size_t)most * 2 * sizeof(long));
    if (!values || make_row(model, most)) {
        free(values);
        return NO_MEMORY;
    }
    size_t at = 0;
    const long n = numbers(read->text, &at, values, most);
    while (read->text[at] == '\t') at++;
    const long segments = numbers(read->text, &at, values + most, most);
    int error = at != read->length || (segments && segments != n) ? NOT_A_REQUEST : 0;
    for (long i = 0; i < n; i++) {
        const long segment = segments ? values[most + i] : 0;
        if (values[i] < 0 || values[i] >= TOKENS || segment < 0 || segment >= SEGMENTS)
            error = error ? error : NO_SUCH_TOKEN;
        model->ids[i] = (int32_t)values[i];
        model->segments[i] = (int32_t)segment;
    }
    free(values);
    if (!error) error = run_row(model, n, ~0u, all);
    if (error) return error;
    for (int number = 0; number < RESULTS; number++) {
        printf("%s\"%s\": ", number ? ", " : "{", NAMES[number]);
        print_result(all, number, NULL, 0, NULL, 0);
    }
    printf("}\n");
    return 0;
}


int main(int count, char **arguments) {
    const int by_ids = count > 1 && !strcmp(arguments[1], "--ids");
    const char *path = count > 1 + by_ids ? arguments[1 + by_ids] : WEIGHTS;
    line read = {NULL, 0, 0};
    results all;
    bertc *model;
    int error = bertc_open(path, &model);
    memset(&all, 0, sizeof all);
    if (error) fprintf(stderr, "error: %s: %s\n", path, bertc_error(error));
    for (long number = 1; !error && next_line(stdin, &read); number++) {
        error = answer_ids(model, &read, &all);
        if (error) fprintf(stderr, "error: line %ld: %s\n", number, bertc_error(error));
    }
    free_results(&all);
    free(read.text);
    bertc_close(model);
    return error;
}
#endif
