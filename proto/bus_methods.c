/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/bus_methods.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#define DICTIONARY BUS_DICTIONARY

/* clang-format off */
static const struct bus_method methods[] = {
    {BUS_MANAGER, "StartSession",  DICTIONARY, BUS_STARTED, "request\0path\0session\0", "POST",   "/v1/sessions"},
    {BUS_MANAGER, "StopSession",   "s",        BUS_ANSWER,  "id\0session\0",            "POST",   "/v1/sessions/{session}/stop"},
    {BUS_MANAGER, "GetSession",    "s",        BUS_ANSWER,  "id\0session\0",            "GET",    "/v1/sessions/{session}"},
    {BUS_MANAGER, "ListSessions",  DICTIONARY, BUS_ANSWER,  "options\0sessions\0",      "GET",    "/v1/sessions"},
    {BUS_MANAGER, "RemoveSession", "s",        BUS_ANSWER,  "id\0removed\0",            "DELETE", "/v1/sessions/{session}"},
    {BUS_MANAGER, "PinSession",    "s",        BUS_ANSWER,  "id\0session\0",            "PUT",    "/v1/sessions/{session}/pin"},
    {BUS_MANAGER, "UnpinSession",  "s",        BUS_ANSWER,  "id\0session\0",            "DELETE", "/v1/sessions/{session}/pin"},
    {BUS_MANAGER, "LabelSession",  "s" DICTIONARY, BUS_ANSWER, "id\0labels\0session\0", "PUT", "/v1/sessions/{session}/labels"},
    {BUS_MANAGER, "ListTraces",    DICTIONARY, BUS_ANSWER,  "options\0traces\0",        "GET",    "/v1/traces"},
    {BUS_MANAGER, "ImportTrace",   DICTIONARY, BUS_TAKEN,   "request\0new\0trace\0",    "POST",   "/v1/traces"},
    {BUS_MANAGER, "GetTrace",      "s",        BUS_ANSWER,  "id\0trace\0",              "GET",    "/v1/traces/{trace}"},
    {BUS_MANAGER, "OpenTrace",     "s",        BUS_FILE,    "id\0file\0name\0size\0",   "GET",    "/v1/traces/{trace}/file"},
    {BUS_MANAGER, "OpenColumns",   "s",        BUS_FILE,    "id\0file\0name\0size\0",   "GET",    "/v1/traces/{trace}/columns"},
    {BUS_MANAGER, "RemoveTrace",   "s",        BUS_ANSWER,  "id\0removed\0",            "DELETE", "/v1/traces/{trace}"},
    {BUS_MANAGER, "PinTrace",      "s",        BUS_ANSWER,  "id\0trace\0",              "PUT",    "/v1/traces/{trace}/pin"},
    {BUS_MANAGER, "UnpinTrace",    "s",        BUS_ANSWER,  "id\0trace\0",              "DELETE", "/v1/traces/{trace}/pin"},
    {BUS_MANAGER, "LabelTrace",    "s" DICTIONARY, BUS_ANSWER, "id\0labels\0trace\0", "PUT", "/v1/traces/{trace}/labels"},
    {BUS_MANAGER, "StartRun",      DICTIONARY, BUS_ANSWER,  "request\0run\0",          "POST",   "/v1/runs"},
    {BUS_MANAGER, "StopRun",       "s",        BUS_ANSWER,  "id\0run\0",               "POST",   "/v1/runs/{run}/stop"},
    {BUS_MANAGER, "GetRun",        "s",        BUS_ANSWER,  "id\0run\0",               "GET",    "/v1/runs/{run}"},
    {BUS_MANAGER, "ListRuns",      DICTIONARY, BUS_ANSWER,  "options\0runs\0",         "GET",    "/v1/runs"},
    {BUS_MANAGER, "ListRequests",  "s" DICTIONARY, BUS_ANSWER, "id\0options\0requests\0", "GET",  "/v1/runs/{run}/requests"},
    {BUS_MANAGER, "RemoveRun",     "s",        BUS_ANSWER,  "id\0removed\0",           "DELETE", "/v1/runs/{run}"},
    {BUS_MANAGER, "LabelRun",      "s" DICTIONARY, BUS_ANSWER, "id\0labels\0run\0", "PUT", "/v1/runs/{run}/labels"},
    {BUS_MANAGER, "ListWorkers",   DICTIONARY, BUS_ANSWER,  "source\0workers\0",        "GET",    "/v1/workers"},
    {BUS_MANAGER, "ListFunctions", DICTIONARY, BUS_ANSWER,  "source\0functions\0",      "GET",    "/v1/functions"},
    {BUS_MANAGER, "GetFunctions",  "s",        BUS_ANSWER,  "id\0functions\0",          "GET",    "/v1/sessions/{session}/functions"},
    {BUS_MANAGER, "ListRouters",   "",         BUS_ANSWER,  "routers\0",                "GET",    "/v1/routers"},
    {BUS_MANAGER, "ListHosts",     "",         BUS_ANSWER,  "hosts\0",                  "GET",    "/v1/hosts"},
    {BUS_MANAGER, "FindRef",       DICTIONARY, BUS_ANSWER,  "options\0ref\0",          "GET",    "/v1/refs"},
    {BUS_MANAGER, "Examine",       DICTIONARY, BUS_ANSWER,  "source\0checks\0",         "GET",    "/v1/doctor"},
    {BUS_MANAGER, "GetUsage",      "",         BUS_ANSWER,  "usage\0",                  "GET",    "/v1/usage"},
    {BUS_MANAGER, "GetArchive",    "",         BUS_ANSWER,  "archive\0",                "GET",    "/v1/archive"},
    {BUS_MANAGER, "FetchTrace",    "s",        BUS_ANSWER,  "id\0fetch\0",              "POST",   "/v1/traces/{trace}/fetch"},
    {BUS_MANAGER, "GetMirror",     "",         BUS_ANSWER,  "mirror\0",                 "GET",    "/v1/mirror"},
    {BUS_MANAGER, "Vacuum",        DICTIONARY, BUS_ANSWER,  "request\0removed\0",       "POST",   "/v1/vacuum"},
    {BUS_MANAGER, "GetVersion",    "",         BUS_ANSWER,  "version\0",                "GET",    "/v1/version"},
    /* The session is the object. */
    {BUS_SESSION, "Stop",          "",         BUS_ANSWER,  "session\0",                "POST",   "/v1/sessions/{session}/stop"},
    {BUS_SESSION, "Get",           "",         BUS_ANSWER,  "session\0",                "GET",    "/v1/sessions/{session}"},
};
/* clang-format on */

const struct bus_method *bus_method_at(size_t i)
{
    return i < sizeof(methods) / sizeof(methods[0]) ? &methods[i] : NULL;
}

const struct bus_method *bus_method_find(const char *interface, const char *name)
{
    for (size_t i = 0; bus_method_at(i); i++)
        if (strcmp(methods[i].interface, interface) == 0 && strcmp(methods[i].name, name) == 0)
            return &methods[i];
    return NULL;
}

void bus_error_of_code(const char *code, char ret[static BUS_ERROR_WORD_MAX])
{
    size_t n = 0;

    for (const char *s = code; *s && n + 1 < BUS_ERROR_WORD_MAX; s++) {
        bool begins = s == code || s[-1] == '-';
        if (*s != '-')
            ret[n++] = (char)(begins ? toupper((unsigned char)*s) : *s);
    }
    ret[n] = '\0';
}

void bus_code_of_error(const char *word, char ret[static BUS_ERROR_WORD_MAX])
{
    size_t n = 0;

    for (const char *s = word; *s && n + 2 < BUS_ERROR_WORD_MAX; s++) {
        if (isupper((unsigned char)*s) && s > word)
            ret[n++] = '-';
        ret[n++] = (char)tolower((unsigned char)*s);
    }
    ret[n] = '\0';
}
