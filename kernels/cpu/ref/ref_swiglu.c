/* SPDX-License-Identifier: Apache-2.0 */
/* silu(gate) * up. */
#include "kernels/cpu/ref/ref.h"

#include <math.h>

double ref_swiglu(double gate, double up)
{
	return gate / (1 + exp(-gate)) * up;
}
