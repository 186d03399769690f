"""Which texts are UUIDs, as Python reads them, and which are names of resources that are hashed to one."""

HEX = "5dfe182a51d24122b90bdf0f215b736e"
TEXTS = [HEX, HEX.upper(), f"{{{HEX}}}", f"urn:uuid:{HEX}", f"-{HEX}", f"+{HEX[1:]}", f"0x{HEX[2:]}", f"0X_{HEX[3:]}", f" {HEX[1:]}",
         "5dfe182a_51d2_4122_b90b_df0f215b", "٥" * 32, "_" * 32, f"_{HEX[1:]}", f"{HEX[:31]}_", f"5dfe__{HEX[6:]}", f"++{HEX[2:]}",
         f"é{HEX[1:]}", f"0x{HEX}", HEX[1:], f"{HEX}0"]


def test_the_same_texts_are_uuids(ours, theirs):
    for text in TEXTS:
        made = []
        for client in (theirs, ours):
            resource = client.post("/v1/resource/generic", {"id": text}).expect(201).json()
            made.append((resource["id"], resource["original_resource_id"]))
            client.delete(f"/v1/resource/generic/{resource['id']}").expect(204)
        assert made[0] == made[1], text
