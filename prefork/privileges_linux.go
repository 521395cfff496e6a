package prefork

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sluicehttp/sluice/internal/process/supervise"
)

// errNotRoot says that the master may not start processes of other users.
var errNotRoot = errors.New("only root can start workers of another user")

// limit gives the workers the user, the privileges and the limits that p asks for.
func (p *Prefork) limit(c *supervise.Config) error {
	c.NoNewPrivileges = p.NoNewPrivileges
	if err := limitFiles(p.MaxFiles); err != nil {
		return fmt.Errorf("sluice: MaxFiles: %w", err)
	}
	if p.User == "" && p.Group == "" {
		return nil
	}
	if p.CommandProducer != nil {
		return errors.New("sluice: User and Group do not apply to the processes of a CommandProducer")
	}
	credential, err := credentialOf(p.User, p.Group)
	if err != nil {
		return fmt.Errorf("sluice: %w", err)
	}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
	return nil
}

// credentialOf returns the identity of a user and a group, which are names or numbers. An
// empty user is the present one, an empty group is the user's.
func credentialOf(userName, groupName string) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, errNotRoot
	}
	c := &syscall.Credential{}
	if userName != "" {
		if err := identify(c, userName, groupName != ""); err != nil {
			return nil, fmt.Errorf("User: %w", err)
		}
	}
	if groupName != "" {
		group, err := user.LookupGroup(groupName)
		if err != nil {
			group = &user.Group{Gid: groupName}
		}
		gid, numberErr := strconv.ParseUint(group.Gid, 10, 32)
		if numberErr != nil {
			return nil, fmt.Errorf("Group: %w", err)
		}
		c.Gid = uint32(gid)
	}
	return c, nil
}

// identify sets the user of c, with its groups, as initgroups(3) does. A number that no
// user has is a user without other groups; it needs a group.
func identify(c *syscall.Credential, name string, hasGroup bool) error {
	u, err := user.Lookup(name)
	if err != nil {
		var idErr error
		if u, idErr = user.LookupId(name); idErr != nil {
			uid, numberErr := strconv.ParseUint(name, 10, 32)
			switch {
			case numberErr != nil:
				return err
			case !hasGroup:
				return fmt.Errorf("no user has the number %d: set Group", uid)
			}
			c.Uid = uint32(uid)
			return nil
		}
	}
	ids, err := u.GroupIds()
	if err != nil {
		return err
	}
	for _, id := range append([]string{u.Uid, u.Gid}, ids...) {
		n, err := strconv.ParseUint(id, 10, 32)
		if err != nil {
			return err
		}
		c.Groups = append(c.Groups, uint32(n))
	}
	c.Uid, c.Gid, c.Groups = c.Groups[0], c.Groups[1], c.Groups[2:]
	return nil
}

// limitFiles sets the number of descriptors that this process, and those that it starts,
// may have. 0 changes nothing.
func limitFiles(most uint64) error {
	if most == 0 {
		return nil
	}
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &now); err != nil {
		return err
	}
	limit := unix.Rlimit{Cur: most, Max: most}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("cannot allow %d descriptors, the limit is %d: %w", most, now.Max, err)
	}
	return nil
}
