package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/pgqueue/pgqueue/console"
)

func (a *app) serveUserCommand() *cobra.Command {
	var role string
	command := &cobra.Command{
		Use: "user NAME", Short: "Make a line for the file of users: asks for a password and prints its hash", Args: cobra.ExactArgs(1),
		Long: `Asks for a password, or reads it from the first line of the input, and prints a line for the file that pgqueue serve --users reads. The
password itself is stored nowhere. No database is needed.`,
		Example: `  pgqueue serve user alice --role operator >> users
  printf '%s\n' "$PASSWORD" | pgqueue serve user bob`,
		RunE: func(command *cobra.Command, args []string) error {
			if role != "viewer" && role != "operator" {
				return usage("--role must be viewer, who reads, or operator, who acts, not %q", role)
			}
			if strings.Contains(args[0], ":") {
				return usage("the name %q cannot be used: a colon ends the name in a line of the file", visible(args[0]))
			}
			password, err := a.password(command.Context(), args[0])
			if err != nil {
				return err
			}
			a.secrets.add(password)
			hash, err := console.HashPassword(password)
			if err != nil {
				return &exitError{code: exitUsage, err: err}
			}
			line := strings.Join([]string{args[0], role, hash}, ":")
			users, err := console.ParseUsers(strings.NewReader(line + "\n"))
			if err == nil && (len(users) != 1 || users[0].Name != args[0]) {
				err = fmt.Errorf("a line of the file cannot hold it")
			}
			if err == nil {
				_, err = console.BasicAuth(users...)
			}
			if err != nil {
				return usage("the name %q cannot be used: %w", args[0], err)
			}
			if a.flags.json {
				return a.writeJSON(struct {
					Name string `json:"name"`
					Role string `json:"role"`
					Line string `json:"line"`
				}{args[0], role, line})
			}
			return a.printf("%s\n", line)
		},
	}
	command.Flags().StringVar(&role, "role", "viewer", "viewer, who reads, or operator, who acts")
	return command
}

// password asks for a password twice, without showing it, or takes a line of the input.
func (a *app) password(ctx context.Context, name string) (string, error) {
	file, ok := a.in.(*os.File)
	if !ok || !a.interactive() {
		line, err := a.readLine(ctx)
		if line == "" && err != nil {
			return "", usage("the password is read from the input, which is empty: %w", err)
		}
		return strings.TrimRight(line, "\r\n"), nil
	}
	first, err := a.readHidden(ctx, file, fmt.Sprintf("password of %s: ", visible(name)))
	if err != nil {
		return "", err
	}
	second, err := a.readHidden(ctx, file, "once more: ")
	if err != nil {
		return "", err
	}
	if first != second {
		return "", usage("the passwords differ")
	}
	return first, nil
}

// readHidden reads a line of a terminal that does not show it. Where ctx ends first, the terminal shows again what is typed; the
// goroutine that still reads ends with the program, which is at once.
func (a *app) readHidden(ctx context.Context, file *os.File, prompt string) (string, error) {
	before, err := term.GetState(int(file.Fd()))
	if err != nil {
		return "", err
	}
	fmt.Fprint(a.err, prompt)
	defer fmt.Fprintln(a.err)
	type read struct {
		password []byte
		err      error
	}
	done := make(chan read, 1)
	go func() {
		password, err := term.ReadPassword(int(file.Fd()))
		done <- read{password, err}
	}()
	select {
	case got := <-done:
		return string(got.password), got.err
	case <-ctx.Done():
		return "", restored(ctx, file, before)
	}
}

// restored gives a terminal its state back and returns why ctx has ended.
func restored(ctx context.Context, file *os.File, state *term.State) error {
	if err := term.Restore(int(file.Fd()), state); err != nil {
		return fmt.Errorf("restore the terminal (reset does it): %w", err)
	}
	return context.Cause(ctx)
}
