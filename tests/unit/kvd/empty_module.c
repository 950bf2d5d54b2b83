/* SPDX-License-Identifier: Apache-2.0 */
/* A shared object that is no module of ours, for test_module.c. */
int empty_module_answer(void);

int empty_module_answer(void)
{
	return 42;
}
