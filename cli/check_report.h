/* check_report.h - a checked script as text, as JSON by the contract, and as SARIF for code-review tools. */
#ifndef TPP_CLI_CHECK_REPORT_H
#define TPP_CLI_CHECK_REPORT_H

#include "cli/check_script.h"
#include "cli/command.h"

/* "ok", "warn" or "fail": errors fail, warnings warn. */
const char *tpp_check_verdict(const struct tpp_check *check);
void tpp_check_append(const struct tpp_check *check, struct tpp_answer *answer);
enum tpp_code tpp_check_answer_json(const struct tpp_check *check, struct tpp_answer *answer, struct tpp_error *err);
/* Writes a SARIF 2.1.0 file (OASIS standard, 2020). */
enum tpp_code tpp_check_write_sarif(const struct tpp_check *check, const char *path, struct tpp_error *err);

#endif
