/* Write each byte as the sign that byte-level vocabularies have for it: those that are no
 * visible character of Latin-1 are numbered from 256 on. */
static int spell_bytes(struct tokens *t) {
    int failed = 0;
    for (size_t i = 0; i < parts(t) && !failed; i++) {
        const struct span part = spans(t)[i];
        const size_t begin = t->new_text.size;
        for (size_t at = part.begin; at < part.end && !failed; at++) {
            uint32_t sign = t->text.at[at];
            unsigned char bytes[4];
            if (sign <= ' ') sign += 0x100;
            else if (sign >= 0x7F && sign <= 0xA0) sign += 0x100 + ' ' + 1 - 0x7F;
            else if (sign == 0xAD) sign = 0x143;
            failed = append(&t->new_text, bytes, encode(sign, bytes));
        }
        if (!failed) failed = add_span(t, begin, t->new_text.size);
    }
    return finish(t, failed);
}
