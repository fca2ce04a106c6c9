/* What a process of a user's has of the server: no more than a login would give, but for what decision 84 keeps: see
   as_login.py. Only root's server has anything that is not its jobs' own, so all of this is for root alone. */
#ifndef CORRAL_LOGIN_H
#define CORRAL_LOGIN_H

#include <stdbool.h>
#include <sys/types.h>

/* Put an empty session keyring, that nobody can write to, in the place of the server's, and forget who logged in to start
   it. For the zygote, once. */
void leave_login(void);

/* Give the calling process, yet root's, the standing that a login has: in memory, scheduling, capabilities. */
void take_login_standing(void);

/* Give up what is left of root's rights, where the kernel was told to keep any of them beyond the change of user. */
bool drop_capabilities(void);

/* Give the calling process a session keyring of its own, with its user's keyring in it. False with errno where it would be
   left with the server's; true where the keys of others are out of its reach, or no keyring can be had here at all. */
bool take_own_keyring(void);

#endif
