//go:build linux || darwin

package file

import "encoding/binary"

// acl is what an access control list says beyond the mode. Where there is one, the mode's bits of the group are the most that it gives to
// anybody but the owner, and say nothing of the group.
type acl struct {
	there bool
	group uint32 // what the group may, as in the last three bits of a mode
	looks bool   // somebody named in it may open the directory, and not write to it
}

const (
	aclVersion = 2
	aclHead    = 4 // the version
	aclEntry   = 8 // tag, what is allowed, for whom

	aclUser, aclOwnGroup, aclGroup, aclMask = 0x02, 0x04, 0x08, 0x10
)

// parseACL takes the form in which the kernel gives it. What makes no sense lets the group do nothing, and strangers look.
func parseACL(b []byte) acl {
	if len(b) < aclHead || binary.LittleEndian.Uint32(b) != aclVersion || (len(b)-aclHead)%aclEntry != 0 {
		return acl{there: true, looks: true}
	}
	a, mask, named := acl{there: true}, uint32(7), []uint32(nil)
	for b = b[aclHead:]; len(b) > 0; b = b[aclEntry:] {
		may := uint32(binary.LittleEndian.Uint16(b[2:]))
		switch binary.LittleEndian.Uint16(b) {
		case aclUser, aclGroup:
			named = append(named, may)
		case aclOwnGroup:
			a.group = may
		case aclMask:
			mask = may
		}
	}
	a.group &= mask
	for _, may := range named {
		a.looks = a.looks || may&mask&5 != 0 && may&mask&2 == 0
	}
	return a
}
