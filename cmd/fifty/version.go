package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/fiftyhosts/fifty/internal/wall"
)

func (a *app) version() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  fifty version",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.out, "fifty "+versionText())
			return err
		},
	}
}

// versionText is the module's version, where it was built from a checkout the commit, and whether it is a build
// for tests.
func versionText() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(unknown version)"
	}
	text := info.Main.Version
	if text == "" || text == "(devel)" {
		text = "development version"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			text += " (" + s.Value[:12] + ")"
		}
	}
	text += ", " + info.GoVersion
	if wall.Faulty {
		text += ", a fault build for tests: it heeds " + wall.Variable
	}
	return text
}
