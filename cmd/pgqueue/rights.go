package main

import "strings"

// rightsHint says which role a command takes, and how to find out what is missing. docs/cli.md has the same in a table.
func (a *app) rightsHint() string {
	words := strings.Fields(strings.TrimPrefix(a.doing, "pgqueue "))
	group, verb := "", ""
	if len(words) > 0 {
		group, verb = words[0], words[len(words)-1]
	}
	lists := func(who, purposes string) string {
		return "the role lacks a right: this takes " + who + ". docs/roles.md has the GRANTs, and " + a.command("doctor --purpose "+purposes) + " lists what is missing"
	}
	const recorded = "; what is done from here is recorded, too, which takes EXECUTE on record_action"
	switch {
	case group == "migrate":
		return "the role lacks a right: migrations are run by the owner of the schema, see docs/roles.md"
	case group == "enqueue", group == "jobs" && verb == "import":
		return lists("a producer", "producer") + recorded
	case group == "schedules" && verb == "trigger":
		return lists("a producer with SELECT on schedules", "producer") + recorded
	case group == "schedules" && verb != "list" && verb != "show":
		return "the role lacks a right: this takes SELECT, INSERT, UPDATE and DELETE on schedules, which docs/roles.md gives to workers" + recorded
	case group == "queues" && verb == "history":
		return "the role lacks a right: this is for the owner, or takes INSERT and UPDATE on queues, see docs/roles.md" + recorded
	case group == "serve":
		return lists("an operator who is a viewer too", "operator,viewer")
	case a.bulk, group == "jobs" && verb == "edit":
		return lists("an operator who is a viewer too", "operator,viewer") + deletes(verb)
	case group == "queues" && verb != "list", group == "kinds" && verb != "paused":
		return lists("an operator", "operator")
	case group == "jobs":
		for _, action := range jobActions() {
			if action.name == verb {
				return lists("an operator", "operator") + deletes(verb)
			}
		}
	}
	return lists("a viewer", "viewer")
}

// deletes says what an operator lacks to delete jobs.
func deletes(verb string) string {
	if verb != "delete" {
		return ""
	}
	return "; to delete takes SELECT and DELETE on jobs and history beside"
}
