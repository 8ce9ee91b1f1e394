/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/agent.h"

int agent_run(const struct agent_config *config)
{
	return config->channel < 0;
}
