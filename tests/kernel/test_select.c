/* Choosing a level: what the CPU has, what was asked for, and what is refused. */
#include "util.h"

static const struct os_cpu bare = {.n_threads = 1, .name = "a plain CPU"};

static void test_auto(void **state)
{
    struct sluice_error err;
    const struct kernel_table *t;
    assert_int_equal(kernel_select(&bare, NULL, &t, &err), SLUICE_OK);
    assert_int_equal(t->level, KERNEL_SCALAR);
    assert_int_equal(kernel_select(&bare, "auto", &t, &err), SLUICE_OK);
    assert_int_equal(t->level, KERNEL_SCALAR);

    struct os_cpu some = bare; /* one of the three is missing */
    some.avx2 = some.f16c = true;
    assert_int_equal(kernel_select(&some, NULL, &t, &err), SLUICE_OK);
    assert_int_equal(t->level, KERNEL_SCALAR);

    struct os_cpu cpu;
    os_cpu(&cpu);
    assert_int_equal(kernel_select(&cpu, NULL, &t, &err), SLUICE_OK);
    const bool avx512 = cpu.avx512f && cpu.avx512bw && cpu.avx512vl && cpu.avx512vnni;
    if (cpu.avx2 && cpu.fma && cpu.f16c)
        assert_string_equal(t->name, avx512 ? cpu.amx_int8 && cpu.avx512vbmi ? "amx" : "avx512" : "avx2");
    if (cpu.neon) assert_string_equal(t->name, cpu.dotprod ? cpu.i8mm ? "i8mm" : "dotprod" : "neon");
    assert_int_equal(kernel_passed_over(&cpu, t, &err), SLUICE_OK);
}

static void test_names(void **state)
{
    struct sluice_error err;
    struct os_cpu cpu;
    const struct kernel_table *t;
    os_cpu(&cpu);
    assert_int_equal(kernel_select(&cpu, "scalar", &t, &err), SLUICE_OK);
    assert_string_equal(t->name, "scalar");
    if (cpu.avx2) {
        assert_int_equal(kernel_select(&cpu, "avx2", &t, &err), SLUICE_OK);
        assert_int_equal(t->level, KERNEL_AVX2);
    }
    if (cpu.neon) {
        assert_int_equal(kernel_select(&cpu, "neon", &t, &err), SLUICE_OK);
        assert_int_equal(t->level, KERNEL_NEON);
    }
}

static void test_refusals(void **state)
{
    struct sluice_error err;
    const struct kernel_table *t = scalar_table();
    assert_int_equal(kernel_select(&bare, "avx2", &t, &err), SLUICE_ERR_HARDWARE);
    assert_null(t);
    assert_non_null(strstr(err.message, "avx2"));
    assert_int_equal(kernel_select(&bare, "avx512", &t, &err), SLUICE_ERR_HARDWARE);
    assert_int_equal(kernel_select(&bare, "amx", &t, &err), SLUICE_ERR_HARDWARE);
    assert_int_equal(kernel_select(&bare, "neon", &t, &err), SLUICE_ERR_HARDWARE);
#ifdef __x86_64__
    assert_non_null(strstr(err.message, "neon is a level of 64-bit ARM processors"));
    assert_non_null(strstr(err.hint, "this build has scalar"));
    assert_non_null(strstr(err.hint, "avx2"));
    assert_null(strstr(err.hint, "neon"));
#endif
    assert_int_equal(kernel_select(&bare, "dotprod", &t, &err), SLUICE_ERR_HARDWARE);
    assert_int_equal(kernel_select(&bare, "i8mm", &t, &err), SLUICE_ERR_HARDWARE);
    assert_int_equal(kernel_select(&bare, "mmx", &t, &err), SLUICE_ERR_USAGE);
    assert_non_null(strstr(err.message, "mmx"));
    assert_non_null(strstr(err.hint, "scalar"));
    assert_non_null(strstr(err.hint, "avx2"));
    assert_non_null(strstr(err.hint, "amx"));
    assert_non_null(strstr(err.hint, "i8mm"));
    assert_int_equal(kernel_select(&bare, "", &t, &err), SLUICE_ERR_USAGE);
}

/* A table computes with every type that room quant knows, and with no other. */
static void test_complete(void **state)
{
    for (size_t i = 0; i < N_LEVELS; i++) {
        const struct kernel_table *t = level_table(levels[i]);
        if (!t) continue;
        for (uint32_t id = 0; id < QUANT_IDS; id++) assert_true((t->product[id] != NULL) == (quant_type(id) != NULL));
        assert_true(t->quantize && t->dot_f32 && t->rms_norm && t->silu_mul && t->add && t->add_scaled && t->scale);
        assert_true(t->exp_sum && t->softmax && t->rope && t->attn_scores && t->attn_values && t->attn_merge);
        assert_true(t->act_mul && t->angles && t->attn_join && t->store_kv);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_auto),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_complete),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
