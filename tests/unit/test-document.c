/* SPDX-License-Identifier: Apache-2.0 */
/* A document in its three forms, with texts that would be markup. */
#include "base/alloc.h"
#include "client/views/document.h"
#include "tests/unit/cmocka-all.h"

static void make(struct document *d)
{
    static const char *const headings[] = {"=NAME", "SUM"};

    d->title = xstrdup("A <b>title</b>");
    document_section(d, "kernels", "Time by kernel");
    document_state(d, "Run r3", "com<i>plete", COLOUR_GOOD, ": 2 of 2 requests");
    document_field(d, "Peak", "%d requests", 24);
    document_field(d, "", "<script>");
    document_problem(d, 2, "worker *1* failed", "Restart it: a_b");
    document_row(document_table(d, headings, 2), (char *[]){xstrdup("gemm|<b>"), NULL});
}

static char *written(int (*write)(const struct document *d, FILE *out))
{
    _cleanup_(document_done) struct document d = {0};
    char *text = NULL;
    size_t size;
    FILE *out = xmemstream(&text, &size);

    make(&d);
    if (write) {
        assert_int_equal(write(&d, out), 0);
    } else {
        struct screen s = {.file = out};
        assert_false(document_print(&d, &s, TABLE_FITTED));
    }
    fclose(out);
    return text;
}

static void test_a_terminal_gets_text(void **state)
{
    _cleanup_(freep) char *text = written(NULL);

    assert_string_equal(text, "kernels  Time by kernel\n"
                              "Run r3 is com<i>plete: 2 of 2 requests\n"
                              "       Peak:  24 requests\n"
                              "              <script>\n"
                              "  worker *1* failed\n"
                              "    Restart it: a_b\n"
                              "NAME      SUM\n"
                              "gemm|<b>    -\n");
}

static void test_a_page_gets_elements(void **state)
{
    _cleanup_(freep) char *text = written(document_html);
    const char *body = strstr(text, "<body>");

    assert_non_null(body);
    assert_string_equal(
        body, "<body>\n<h1>A &lt;b&gt;title&lt;/b&gt;</h1>\n"
              "<nav><a href=\"#kernels\">kernels</a> </nav>\n"
              "<h2 id=\"kernels\">kernels: Time by kernel</h2>\n"
              "<p>Run r3 is <b>com&lt;i&gt;plete</b>: 2 of 2 requests</p>\n"
              "<dl class=\"fields\">\n<dt>Peak</dt><dd>24 requests</dd>\n"
              "<dt></dt><dd>&lt;script&gt;</dd>\n</dl>\n"
              "<p>worker *1* failed<br>Restart it: a_b</p>\n"
              "<div class=\"wide\"><table><thead><tr><th>NAME</th><th class=\"n\">SUM</th></tr></thead>"
              "<tbody>\n<tr><td>gemm|&lt;b&gt;</td><td class=\"n\">-</td></tr>\n"
              "</tbody></table></div>\n</body></html>\n");
}

static void test_markdown_is_escaped(void **state)
{
    _cleanup_(freep) char *text = written(document_markdown);

    assert_string_equal(text, "# A \\<b\\>title\\</b\\>\n\n"
                              "## Time by kernel\n\n"
                              "Run r3 is com\\<i\\>plete: 2 of 2 requests\n\n"
                              "- Peak: 24 requests\n"
                              "- \\<script\\>\n\n"
                              "worker \\*1\\* failed\n\nRestart it: a\\_b\n\n"
                              "| NAME | SUM |\n| --- | ---: |\n| gemm\\|\\<b\\> | - |\n\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_terminal_gets_text),
        cmocka_unit_test(test_a_page_gets_elements),
        cmocka_unit_test(test_markdown_is_escaped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
