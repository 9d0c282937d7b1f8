/* SentencePiece's table of texts as the tokenizers library reads it: of a grapheme below six
 * bytes the shortest text of the table that it begins with stands for all of it; of others
 * each character is looked up. */
enum { LONGEST_GRAPHEME = 6 };

static int goes_on(uint32_t last, uint32_t c) {
    if (last == '\r' && c == '\n') return 1;
    return !is(last, CONTROL) && !is(c, CONTROL) && (is(c, JOINS) || is(last, PREPENDED));
}

/* The text in place of what begins there, NULL if the table has none: a double array, as
 * Darts writes it. */
static const char *mapped(const unsigned char *from, size_t size) {
    const uint32_t *units = section(CHARSMAP);
    uint32_t place = 0, unit = units[0];
    for (size_t i = 0; i <= size; i++) {
        place ^= unit >> 10 << (unit >> 6 & 8);
        if (place >= count(CHARSMAP)) return NULL;
        if (i > 0 && (unit & 256)) {
            const uint32_t text = units[place] & 0x7FFFFFFF;
            return text < tables.size[CHARSMAP_TEXTS] ? (const char *)tables.at[CHARSMAP_TEXTS] + text : NULL;
        }
        if (i == size || from[i] == 0 || (place ^= from[i]) >= count(CHARSMAP)) return NULL;
        unit = units[place];
        if ((unit & 0x800000FF) != from[i]) return NULL;
    }
    return NULL;
}

static int map_graphemes(struct tokens *t) {
    int failed = 0;
    const unsigned char *text = t->text.at;
    for (size_t begin = 0, end = 0; begin < t->text.size && !failed; begin = end) {
        uint32_t last = read_character(text, t->text.size, &end);
        for (size_t next = end; next < t->text.size; end = next) {
            const uint32_t c = read_character(text, t->text.size, &next);
            if (!goes_on(last, c)) break;
            last = c;
        }
        size_t size = end - begin < LONGEST_GRAPHEME ? end - begin : 0;
        for (size_t at = begin, next = at; at < end && !failed; at = next, size = 0) {
            const char *to = size ? mapped(text + at, size) : NULL;
            read_character(text, end, &next);
            if (to) next = end;
            else to = mapped(text + at, next - at);
            failed = to ? append(&t->new_text, to, strlen(to))
                        : append(&t->new_text, text + at, next - at);
        }
    }
    if (!failed) failed = add_span(t, 0, t->new_text.size);
    return finish(t, failed);
}

static int is_charsmap(void) {
    const size_t size = tables.size[CHARSMAP_TEXTS];
    return count(CHARSMAP) > 0 && size > 0 && tables.at[CHARSMAP_TEXTS][size - 1] == 0;
}
