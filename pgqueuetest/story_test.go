package pgqueuetest_test

import "testing"

// The example has no output to compare, so it is run here.
func TestTheStoryOfTheExampleIsTrue(t *testing.T) {
	t.Parallel()
	testSignUp(t)
}

func TestTheStoryOfTheClockIsTrue(t *testing.T) {
	t.Parallel()
	testReminder(t)
}

func TestTheStoryOfOneHandlerIsTrue(t *testing.T) {
	t.Parallel()
	testWelcomeHandler(t)
}
