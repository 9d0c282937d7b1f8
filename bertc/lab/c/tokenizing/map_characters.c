/* Write each character as a table has it: 0 as it is, SPACED between spaces, else as a text:
 * its place, its length, and a bit that is 1. */
enum { SPACED = 2 };

static int map_characters(struct tokens *t, int table) {
    int failed = 0;
    for (size_t i = 0; i < parts(t) && !failed; i++) {
        const struct span part = spans(t)[i];
        const size_t begin = t->new_text.size;
        for (size_t at = part.begin, from = at; at < part.end && !failed; from = at) {
            const uint32_t to = look_up(table, read_character(t->text.at, part.end, &at));
            if (to & 1) {
                failed = append(&t->new_text, tables.at[table + 2] + (to >> 8), to >> 1 & 127);
                continue;
            }
            if (to == SPACED) failed = append(&t->new_text, " ", 1);
            if (!failed) failed = append(&t->new_text, t->text.at + from, at - from);
            if (to == SPACED && !failed) failed = append(&t->new_text, " ", 1);
        }
        if (!failed) failed = add_span(t, begin, t->new_text.size);
    }
    return finish(t, failed);
}

static int is_map(int table) {
    for (size_t i = 0; i < count(table + 1); i++) {
        const uint32_t to = section(table + 1)[i];
        if ((to & 1) && (to >> 8) + (to >> 1 & 127) > tables.size[table + 2]) return 0;
    }
    return is_table(table);
}
