/* SPDX-License-Identifier: Apache-2.0 */
/*
 * simdjson On-Demand over a trace (a file, or stdin as "-"): every event visited, durations summed by name
 * for GPU work, as a fast program without an engine would.
 */
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <simdjson.h>
#include <string>
#include <string_view>
#include <unistd.h>
#include <unordered_map>

using namespace simdjson;

static padded_string load(const char *path)
{
    std::string text;
    char buffer[1 << 18];
    ssize_t n;

    if (std::string_view(path) != "-")
        return padded_string::load(path);
    while ((n = read(STDIN_FILENO, buffer, sizeof(buffer))) > 0)
        text.append(buffer, (size_t)n);
    return padded_string(text);
}

struct kernel {
    size_t count;
    double sum;
};

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: peer-simdjson FILE|-\n");
        return EXIT_FAILURE;
    }
    padded_string json = load(argv[1]);
    std::unordered_map<std::string, kernel> kernels;
    ondemand::parser parser;
    ondemand::document document = parser.iterate(json);
    size_t events = 0;

    for (ondemand::object event : document["traceEvents"].get_array()) {
        std::string_view name, category;
        double dur = 0;
        events++;
        for (auto field : event) {
            std::string_view key = field.unescaped_key();
            if (key == "name")
                name = field.value().get_string();
            else if (key == "cat")
                category = field.value().get_string();
            else if (key == "dur")
                dur = field.value().get_double();
        }
        if (category == "kernel" || category == "gpu_memcpy") {
            kernel &k = kernels[std::string(name)];
            k.count++;
            k.sum += dur;
        }
    }
    printf("{\"events\": %zu, \"names\": %zu}\n", events, kernels.size());
    return EXIT_SUCCESS;
}
