package lab

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sluicehttp/sluice/tools/lab/internal/result"
)

// newLabReportCommand returns "sluice lab report".
func newLabReportCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "report FOLDER...",
		Short: "Put the results of several runs into one table, beside the seed's figures",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, folders []string) error {
			results, err := result.LoadAll(folders)
			if err != nil {
				return err
			}
			fmt.Fprint(cmd.OutOrStdout(), result.Compare(results))
			if out == "" {
				return nil
			}
			return result.SaveComparison(out, results)
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "`FOLDER` for report.md and plots")
	return cmd
}
