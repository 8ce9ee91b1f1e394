/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_main.c - the agent as a program of its own.
 *
 * Owns:  nothing.
 * Rules: see agent/main.c.
 */
#include "agent/agent.h"

int main(int argc, char **argv)
{
	return agent_main(argc, argv);
}
