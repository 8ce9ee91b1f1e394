/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy/rules.c - which wall which run needs: the whole of the policy, as data.
 *
 * Owns:  the rules.
 * Rules: T is a row of the risk table, R one of the seven decision rules, S a section of the text.
 *        A rule only ever takes walls away: what is left after all that fired is allowed, so the
 *        order of the rows decides nothing. Ids are in stored records; never rename one.
 *
 * From the document's technologies to walls: hardened Docker is container, gVisor is kernel,
 * Firecracker and Kata are vm, WASM is wasm and js. js and wasm satisfy a demand only where a row
 * names them in `beside`. Our vm passes no GPU through.
 */
#include "base/ckd.h"
#include "policy/policy.h"

#define IS(value) (uint8_t)(1u << (value))
#define YES IS(1)
#define NO IS(0)
#define ISOLATES (WALL_BIT(WALL_JS) | WALL_BIT(WALL_WASM))

/* clang-format off */
static const struct policy_rule rules[] = {
	/*
	 * T1 and T2 recommend the container that the table asks for, but allow the workspace: the
	 * document's table has no row for throw-away working copies, and where the code is trusted
	 * and nothing else raises the demand they are enough (docs/POLICY.md).
	 */
	{
		.id = "T1.text-only",
		.covers = "table row 1: text-only, no tools",
		.when = { [TRAIT_CODE] = IS(CODE_NONE) },
		.least = WALL_WORKSPACE, .beside = ISOLATES,
		.best = { WALL_CONTAINER }, .pull = PULL_RISK,
		.who = "an agent that runs no code",
		.reason = "nothing is executed, so there is little to attack, and a container costs "
			"next to nothing",
		.instead = "make a tier available: 'ward doctor' says how",
	},
	{
		.id = "T2.trusted",
		.covers = "table row 2: trusted code (internal scripts)",
		.when = { [TRAIT_CODE] = IS(CODE_TRUSTED) },
		.least = WALL_WORKSPACE, .beside = ISOLATES,
		.best = { WALL_CONTAINER }, .pull = PULL_RISK,
		.who = "trusted code",
		.reason = "people wrote and reviewed it and its dependencies are known; a hardened "
			"container contains its mistakes",
		.instead = "make a tier available: 'ward doctor' says how",
	},
	{
		.id = "R1.generated",
		.covers = "table row 3: LLM-generated code; rule 1: is the code LLM-generated",
		.when = { [TRAIT_CODE] = IS(CODE_GENERATED), [TRAIT_BROWSER] = NO },
		.least = WALL_KERNEL,
		.best = { WALL_VM, WALL_KERNEL }, .pull = PULL_RISK,
		.who = "generated code",
		.reason = "nobody can foresee which system calls it makes, so none of them may reach "
			"the host's kernel unseen; a bare container never is enough",
		.instead = "say --code trusted if a person has reviewed it",
	},
	{
		.id = "R1.generated-browser",
		.covers = "table rows 3 and 8: LLM-generated code, browser-side",
		.when = { [TRAIT_CODE] = IS(CODE_GENERATED), [TRAIT_BROWSER] = YES },
		.least = WALL_KERNEL, .beside = ISOLATES,
		.best = { WALL_WASM, WALL_JS }, .pull = PULL_PLACE,
		.who = "generated browser-side code",
		.reason = "an isolate offers it no system call at all, which is less than any kernel",
		.instead = "say --code trusted if a person has reviewed it",
	},
	{
		.id = "R2.tenants",
		.covers = "table row 4: multi-tenant; rule 2: do tenants share infrastructure",
		.when = { [TRAIT_TENANTS] = IS(TENANTS_MANY) },
		.least = WALL_VM,
		.best = { WALL_VM }, .pull = PULL_RISK,
		.who = "a host that tenants share",
		.reason = "each tenant needs a kernel of its own, or one tenant's kernel exploit is "
			"every tenant's loss",
		.instead = "give each tenant a host of its own and say --tenants one",
	},
	{
		.id = "T5.sensitive",
		.covers = "table row 5: finance, healthcare, PII",
		.when = { [TRAIT_DATA] = IS(DATA_SENSITIVE) },
		.least = WALL_VM,
		.best = { WALL_VM }, .pull = PULL_RISK,
		.who = "sensitive data",
		.reason = "those who regulate it expect a hardware boundary, together with egress to "
			"named hosts only and secrets added on the way out",
		.instead = "say --data public if the run gets only masked or made-up data",
	},
	{
		.id = "R3.gpu",
		.covers = "table row 6: GPU-accelerated; rule 3: is GPU passthrough needed",
		.when = { [TRAIT_GPU] = YES },
		.least = WALL_KERNEL,
		.cannot = WALL_BIT(WALL_VM) | ISOLATES,
		.best = { WALL_KERNEL }, .pull = PULL_RISK,
		.who = "a run with a GPU",
		.reason = "the vm has no GPU passthrough and the GPU's driver is too large a target "
			"for a container, which leaves the userspace kernel",
		.instead = "leave --gpu out",
	},
	{
		.id = "T7.plugin",
		.covers = "table row 7: plugin or extension system",
		.when = { [TRAIT_CODE] = IS(CODE_PLUGIN) },
		.least = WALL_VM, .beside = ISOLATES,
		.best = { WALL_WASM, WALL_VM }, .pull = PULL_PLACE,
		.who = "a plugin",
		.reason = "a third party wrote it for an interface of yours: give it that interface "
			"and nothing else, or hardware between you and it",
		.instead = "say --code trusted if a person has reviewed it",
	},
	{
		.id = "T8.browser",
		.covers = "table row 8: browser-side agent",
		.when = { [TRAIT_BROWSER] = YES },
		.least = WALL_CONTAINER, .beside = ISOLATES,
		.best = { WALL_WASM, WALL_JS }, .pull = PULL_PLACE,
		.who = "browser-side code",
		.reason = "in the browser it lives in an isolate already; here the like of it is wasm",
		.instead = "leave --browser out",
	},
	{
		.id = "R4.kubernetes",
		.covers = "rule 4: is Kubernetes the orchestration layer",
		.when = { [TRAIT_KUBERNETES] = YES },
		.least = WALL_KERNEL,
		.best = { WALL_KERNEL }, .pull = PULL_RISK,
		.who = "a run that Kubernetes places",
		.reason = "a pod shares its node's kernel with its neighbours: choose the userspace "
			"kernel or the vm by RuntimeClass, not the node's default runtime",
		.instead = "leave --kubernetes out if Kubernetes does not place this run",
	},
	{
		.id = "R5.fast-start",
		.covers = "rule 5: is sub-10ms startup required",
		.when = { [TRAIT_FAST_START] = YES },
		.cannot = WALL_BIT(WALL_KERNEL) | WALL_BIT(WALL_VM),
		.best = { WALL_CONTAINER, WALL_WASM }, .pull = PULL_COST,
		.who = "a start below 10 ms",
		.reason = "no userspace kernel and no virtual machine is up that soon; a container or an "
			"isolate is",
		.instead = "leave --fast-start out",
	},
	{
		.id = "R6.compute",
		.covers = "rule 6: is the workload compute-intensive with low I/O",
		.when = { [TRAIT_LOAD] = IS(LOAD_COMPUTE) },
		.best = { WALL_KERNEL }, .pull = PULL_COST,
		.who = "a compute-heavy load",
		.reason = "it makes few system calls, so the userspace kernel costs it next to "
			"nothing: the most isolation for the price",
		.instead = "leave --load out",
	},
	{
		.id = "S6.io",
		.covers = "section 6: when the overhead is not worth it, I/O-intensive work",
		.when = { [TRAIT_LOAD] = IS(LOAD_IO) },
		.best = { WALL_CONTAINER, WALL_VM }, .pull = PULL_COST,
		.who = "an I/O-heavy load",
		.reason = "the userspace kernel stands in the way of every file operation; a "
			"container does not, and a vm hardly does",
		.instead = "leave --load out",
	},
	{
		.id = "R7.compliance",
		.covers = "rule 7: are there compliance audit requirements",
		.when = { [TRAIT_COMPLIANCE] = YES },
		.least = WALL_VM,
		.best = { WALL_VM }, .pull = PULL_RISK,
		.who = "an audited run",
		.reason = "a virtual machine is the boundary that auditors know and can verify",
		.instead = "agree on another boundary with the auditor and leave --compliance out",
	},
};
/* clang-format on */

_Static_assert(ARRAY_LEN(rules) <= POLICY_FIRED_MAX, "a decision has room for every rule");

const struct policy_rule *policy_rules(unsigned *ret_count)
{
	*ret_count = ARRAY_LEN(rules);
	return rules;
}
