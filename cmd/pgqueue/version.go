package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/pgqueue/pgqueue/migrations"
)

// versionView is what the program is made of. Nothing of its surroundings is in it: no environment, no connection.
type versionView struct {
	Version       string `json:"version"`
	Commit        string `json:"commit,omitempty"`
	CommitTime    string `json:"commit_time,omitempty"`
	Modified      bool   `json:"modified,omitempty"`
	GoVersion     string `json:"go_version"`
	Platform      string `json:"platform"`
	SchemaVersion uint   `json:"schema_version"`
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the versions of the program and of the schema that it knows", Args: cobra.NoArgs,
		Example: `  pgqueue version
  pgqueue version --json`,
		RunE: func(*cobra.Command, []string) error {
			view := thisVersion()
			if a.flags.json {
				return a.writeJSON(view)
			}
			commit := view.Commit
			if view.Modified {
				commit += " (modified)"
			}
			if err := a.printf("pgqueue %s\n", view.Version); err != nil {
				return err
			}
			return a.writeFacts([][2]string{
				{"schema", fmt.Sprintf("version %d", view.SchemaVersion)},
				{"commit", commit},
				{"of", view.CommitTime},
				{"go", view.GoVersion + " " + view.Platform},
			})
		},
	}
}

// thisVersion reads what the Go tool has written into the program.
func thisVersion() versionView {
	view := versionView{
		Version: "(devel)", GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, SchemaVersion: migrations.Latest,
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return view
	}
	if info.Main.Version != "" {
		view.Version = info.Main.Version
	}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			view.Commit = setting.Value
		case "vcs.time":
			view.CommitTime = setting.Value
		case "vcs.modified":
			view.Modified = setting.Value == "true"
		}
	}
	return view
}
