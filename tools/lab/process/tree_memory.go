//go:build unix

package process

import "fmt"

// TreeMemory is the memory of a process and of those that descend from it, in
// bytes.
type TreeMemory struct {
	Resident  int64 // VmRSS
	Anonymous int64 // RssAnon: heap and stacks
}

// TreeMemory returns the memory of the child and of the processes that it
// started.
func (c *Child) TreeMemory() (TreeMemory, error) { return treeMemory(c.cmd.Process.Pid) }

// TreeMemory returns the memory of the program and of the processes that it
// started.
func (p *Program) TreeMemory() (TreeMemory, error) { return treeMemory(p.cmd.Process.Pid) }

func treeMemory(root int) (sum TreeMemory, err error) {
	err = each(root, func(pid int) error {
		status, err := kibibytes(fmt.Sprintf("/proc/%d/status", pid), "VmRSS", "RssAnon")
		if err != nil {
			return err
		}
		sum.Resident += status[0]
		sum.Anonymous += status[1]
		return nil
	})
	return sum, err
}
