/* Asserts guard our own invariants, never input, and stay on in release builds. The text cites the invariant's number
 * where it has one: BASE_ASSERT(slot->pins == 0, "E1 a pinned slot is never a victim"). */
#ifndef BASE_ASSERT_H
#define BASE_ASSERT_H

_Noreturn void base_assert_failed(const char *file, int line, const char *condition, const char *why);

#define BASE_ASSERT(condition, why) ((condition) ? (void)0 : base_assert_failed(__FILE__, __LINE__, #condition, why))

#endif
