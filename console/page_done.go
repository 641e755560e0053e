package console

// doneText is what a page says after an action: redirect("/jobs/17", url.Values{"done": {"retry"}}). The words of the address choose
// among these sentences and are not shown themselves, so that nobody can put words into the console's mouth with a link.
func doneText(action string) string {
	switch action {
	case "":
		return ""
	case "retry":
		return "The job was retried."
	case "retry-with", "edit-and-retry":
		return "The job was retried with the new payload."
	case "cancel":
		return "The job was cancelled, or asked to stop where it runs."
	case "delete":
		return "The job was deleted."
	case "edit":
		return "The payload was replaced."
	case "reschedule":
		return "The job was rescheduled."
	case "priority":
		return "The priority was changed."
	case "max-attempts":
		return "The number of attempts was changed."
	case "pause":
		return "Paused."
	case "resume":
		return "Resumed."
	case "history":
		return "The history setting was changed."
	case "enable":
		return "The schedule was enabled."
	case "disable":
		return "The schedule was disabled."
	case "trigger":
		return "A job was enqueued."
	case "delete-schedule":
		return "The schedule was deleted."
	case "spec":
		return "The schedule was changed."
	case "bulk", "start":
		return "The operation was started."
	case "stop":
		return "The operation was asked to stop."
	default: // a word that somebody wrote into an address
		return ""
	}
}
