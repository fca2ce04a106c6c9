"""Reading devices whose driver may hang: a worker does it, and is given up for another when a call does not return.

Start with `patient_reader`. A worker is a process (`process_worker`), or a thread for devices without a driver.
"""
