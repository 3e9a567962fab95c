/* What this machine has and lacks for local sandboxes. */
#ifndef HANDSFS_BACKENDS_LOCAL_DOCTOR_H
#define HANDSFS_BACKENDS_LOCAL_DOCTOR_H

#include "sandbox/sandbox.h"

void local_doctor(doctor_report report, void *arg);

#endif
