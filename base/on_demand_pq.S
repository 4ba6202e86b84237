/* SPDX-License-Identifier: Apache-2.0 */
/* libpq, which talks to PostgreSQL. It brings Kerberos and LDAP; who uses no mirror does not need it installed. */
#include "base/on_demand_call.h"

ON_DEMAND("libpq.so.5", \
          PQcancel, PQclear, PQconnectPoll, PQconnectStartParams, PQconninfoFree, PQconninfoParse, PQconsumeInput, \
          PQerrorMessage, PQfinish, PQflush, PQfname, PQfreeCancel, PQfreemem, PQftype, PQgetCancel, PQgetisnull, \
          PQgetlength, PQgetResult, PQgetvalue, PQisBusy, PQnfields, PQnotifies, PQntuples, PQresultErrorField, \
          PQresultErrorMessage, PQresultStatus, PQsendQuery, PQsendQueryParams, PQsetNoticeProcessor, PQsetnonblocking, \
          PQsetSingleRowMode, PQsocket, PQstatus)
